package webhook_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/client/webhook"
)

const order = "amount=10.00&order=4711"

var (
	rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey  = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	edKey  = ed25519.NewKeyFromSeed(make([]byte, 32))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func public(key any) string { return block("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(key))) }

func certificate() string {
	c := &x509.Certificate{SerialNumber: big.NewInt(0xABC)}
	return block("CERTIFICATE", must(x509.CreateCertificate(rand.Reader, c, c, rsaKey().Public(), rsaKey())))
}

func whpk(key []byte) string { return "whpk_" + base64.StdEncoding.EncodeToString(key) }

func rsaSign(text string) string {
	digest := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(must(rsa.SignPKCS1v15(nil, rsaKey(), crypto.SHA256, digest[:])))
}

func hexSum(text string) string {
	mac := hmac.New(sha256.New, []byte(published))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// jws returns a detached JWS of body.
func jws(head, body string, sign func(text []byte) []byte) string {
	head = base64.RawURLEncoding.EncodeToString([]byte(head))
	return head + ".." + base64.RawURLEncoding.EncodeToString(sign([]byte(head+"."+body)))
}

func eddsa(text []byte) []byte { return ed25519.Sign(edKey, text) }

func es256(text []byte) []byte {
	digest := sha256.Sum256(text)
	r, s, err := ecdsa.Sign(rand.Reader, ecKey(), digest[:])
	if err != nil {
		panic(err)
	}
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:])
	return out
}

const head = `{"alg":"EdDSA","b64":false,"crit":["b64"],"webhook-id":"msg_1","webhook-timestamp":1614265330,"host":"shop.example"}`

// callback returns a callback that is valid in a scheme, and the options of its receiver.
func callback(scheme webhook.Scheme) (o webhook.Options, h http.Header, body string) {
	o = webhook.Options{Scheme: scheme, Now: func() time.Time { return time.Unix(stamp, 0) }}
	h, body = http.Header{}, order
	switch scheme {
	case webhook.Stripe:
		o.Secrets = []string{published}
		h.Set("Notifier-Signature", "t=1614265330,v1="+hexSum("1614265330."+body))
	case webhook.GitHub:
		o.Secrets = []string{published}
		h.Set("X-Hub-Signature-256", "sha256="+hexSum(body))
	case webhook.StandardEd25519:
		o.Keys = []string{whpk(edKey[32:])}
		h.Set("Webhook-Id", "msg_1")
		h.Set("Webhook-Timestamp", "1614265330")
		h.Set("Webhook-Signature", "v1a,"+base64.StdEncoding.EncodeToString(eddsa([]byte("msg_1.1614265330."+body))))
	case webhook.WechatPay:
		o.Keys = []string{certificate()}
		h.Set("Wechatpay-Timestamp", "1614265330")
		h.Set("Wechatpay-Nonce", "n1")
		h.Set("Wechatpay-Serial", "ABC")
		h.Set("Wechatpay-Signature", rsaSign("1614265330\nn1\n"+body+"\n"))
	case webhook.Alipay:
		o.Keys = []string{public(rsaKey().Public())}
		body += "&sign_type=RSA2&sign=" + url.QueryEscape(rsaSign(order))
	case webhook.JWS:
		o.Keys, o.Host = []string{public(edKey.Public())}, "shop.example"
		h.Set("Webhook-Jws", jws(head, body, eddsa))
	}
	return o, h, body
}

func TestSchemesReturnSignedValues(t *testing.T) {
	t.Parallel()
	at := time.Unix(stamp, 0)
	for _, want := range []webhook.Result{
		{Scheme: webhook.Stripe, At: at},
		{Scheme: webhook.GitHub, TimeUnchecked: true},
		{Scheme: webhook.StandardEd25519, ID: "msg_1", At: at},
		{Scheme: webhook.WechatPay, At: at, KeyID: "ABC"},
		{Scheme: webhook.Alipay, TimeUnchecked: true},
		{Scheme: webhook.JWS, ID: "msg_1", At: at},
	} {
		o, h, body := callback(want.Scheme)
		v, err := webhook.NewVerifier(o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.Check(t.Context(), h, []byte(body)); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		got, err := v.Check(t.Context(), h, []byte(strings.Replace(body, "10.00", "99.00", 1)))
		if !errors.Is(err, webhook.ErrSignature) || got != (webhook.Result{}) {
			t.Errorf("%s: a changed amount: %+v, %v", want.Scheme, got, err)
		}
	}
}

func TestSchemesRefuseInvalidCallbacks(t *testing.T) {
	t.Parallel()
	type change func(o *webhook.Options, h http.Header, body *string)
	set := func(name, value string) change {
		return func(_ *webhook.Options, h http.Header, _ *string) { h.Set(name, value) }
	}
	keys := func(texts ...string) change {
		return func(o *webhook.Options, _ http.Header, _ *string) { o.Keys = texts }
	}
	form := func(old, to string) change {
		return func(_ *webhook.Options, _ http.Header, body *string) { *body = strings.Replace(*body, old, to, 1) }
	}
	token := func(old, to string) change {
		return set("Webhook-Jws", jws(strings.Replace(head, old, to, 1), order, eddsa))
	}
	p256 := func(sign func([]byte) []byte) change {
		return func(o *webhook.Options, h http.Header, _ *string) {
			o.Keys = []string{public(ecKey().Public())}
			h.Set("Webhook-Jws", jws(strings.Replace(head, "EdDSA", "ES256", 1), order, sign))
		}
	}
	forged := func(text []byte) []byte {
		return ed25519.Sign(ed25519.NewKeyFromSeed([]byte("another seed of thirty-two bytes")), text)
	}
	ipv6 := func(o *webhook.Options, h http.Header, body *string) {
		o.Host = "[2001:DB8:0::1]"
		token("shop.example", "2001:db8::1")(o, h, body)
	}
	late := func(o *webhook.Options, _ http.Header, _ *string) {
		o.Now = func() time.Time { return time.Unix(stamp+301, 0) }
	}
	for _, c := range []struct {
		scheme webhook.Scheme
		name   string
		change change
		want   error
		text   string
	}{
		{webhook.Stripe, "no header", set("Notifier-Signature", ""), webhook.ErrHeader, "notifier-signature is missing"},
		{webhook.Stripe, "two times", set("Notifier-Signature", "t=1,t=2,v1=x"), webhook.ErrHeader, "notifier-signature has two times"},
		{webhook.Stripe, "no time", set("Notifier-Signature", "v1=x"), webhook.ErrHeader, "t in notifier-signature is not a number of seconds"},
		{webhook.Stripe, "only a signature of version 0", set("Notifier-Signature", "t=1614265330,v0="+hexSum("1614265330."+order)),
			webhook.ErrSignature, ""},
		{webhook.Stripe, "an old one", late, webhook.ErrTimestamp, "by 5m1s, more than the tolerance of 5m0s"},
		{webhook.GitHub, "no header", set("X-Hub-Signature-256", ""), webhook.ErrHeader, "x-hub-signature-256 is missing"},
		{webhook.GitHub, "SHA-1", set("X-Hub-Signature-256", "sha1=x"), webhook.ErrHeader, "x-hub-signature-256 does not begin with sha256="},
		{webhook.GitHub, "a cut signature", set("X-Hub-Signature-256", "sha256="+hexSum(order)[:62]), webhook.ErrSignature, ""},

		{webhook.StandardEd25519, "not base64", set("Webhook-Signature", "v1a,!"), webhook.ErrSignature, ""},
		{webhook.StandardEd25519, "a cut signature", set("Webhook-Signature", "v1a,AAAA"), webhook.ErrSignature, ""},
		{webhook.StandardEd25519, "a signature by a secret", set("Webhook-Signature", "v1,AAAA"), webhook.ErrSignature, ""},
		{webhook.StandardEd25519, "no key of its kind", keys(public(rsaKey().Public())), webhook.ErrKey, "there is no OKP key"},

		{webhook.WechatPay, "no serial", set("Wechatpay-Serial", ""), webhook.ErrHeader, "wechatpay-serial is missing"},
		{webhook.WechatPay, "not base64", set("Wechatpay-Signature", "!"), webhook.ErrHeader, "wechatpay-signature is not base64"},
		{webhook.WechatPay, "a time in words", set("Wechatpay-Timestamp", "now"), webhook.ErrHeader, "wechatpay-timestamp is not a number"},
		{webhook.WechatPay, "an old one", late, webhook.ErrTimestamp, "by 5m1s"},
		{webhook.WechatPay, "an unknown serial", set("Wechatpay-Serial", "DEF"), webhook.ErrKey, `there is no RSA key with the id "DEF"`},
		{webhook.WechatPay, "valid with a key without a serial", keys(public(rsaKey().Public())), nil, ""},
		{webhook.WechatPay, "another nonce", set("Wechatpay-Nonce", "n2"), webhook.ErrSignature, ""},

		{webhook.Alipay, "JSON", form("amount=10.00", "amount=%zz"), webhook.ErrBody, "it is not a form"},
		{webhook.Alipay, "not UTF-8", form("4711", "\xff"), webhook.ErrBody, "it is not a form"},
		{webhook.Alipay, "a second amount", form("&sign_type", "&amount=99.00&sign_type"), webhook.ErrBody, "a field is given twice"},
		{webhook.Alipay, "SHA-1", form("RSA2", "RSA"), webhook.ErrBody, "sign_type is not RSA2"},
		{webhook.Alipay, "no signature", form("sign=", "sign=&x="), webhook.ErrBody, "sign is missing"},
		{webhook.Alipay, "not base64", form("sign=", "sign=!"), webhook.ErrBody, "sign is not base64"},
		{webhook.Alipay, "no key of its kind", keys(public(edKey.Public())), webhook.ErrKey, "there is no RSA key"},

		{webhook.JWS, "no header", set("Webhook-Jws", ""), webhook.ErrHeader, "webhook-jws is missing"},
		{webhook.JWS, "an attached payload", set("Webhook-Jws", "e30.e30.AAAA"), webhook.ErrHeader, "webhook-jws is not a detached JWS"},
		{webhook.JWS, "a cut header", set("Webhook-Jws", "e..AAAA"), webhook.ErrHeader, "webhook-jws is not a detached JWS"},
		{webhook.JWS, "a cut signature", set("Webhook-Jws", "e30..A"), webhook.ErrHeader, "webhook-jws is not a detached JWS"},
		{webhook.JWS, "a header that is not JSON", set("Webhook-Jws", "AAAA..AAAA"), webhook.ErrHeader, "webhook-jws is not a detached JWS"},
		{webhook.JWS, "an encoded payload", token("false", "true"), webhook.ErrHeader, "needs b64 false"},
		{webhook.JWS, "an unknown extension", token(`["b64"]`, `["b64","exp"]`), webhook.ErrHeader, "crit with b64 only"},
		{webhook.JWS, "no algorithm", token("EdDSA", "none"), webhook.ErrHeader, `the algorithm "none"; want EdDSA or ES256`},
		{webhook.JWS, "a key of another kind", token("EdDSA", "ES256"), webhook.ErrKey, "there is no EC key"},
		{webhook.JWS, "an unknown key", token(`"b64"`, `"kid":"k2","b64"`), webhook.ErrKey, `with the id "k2"`},
		{webhook.JWS, "another host", token("shop.example", "evil.example"), webhook.ErrHost, `for "evil.example"`},
		{webhook.JWS, "valid for an IPv6 address", ipv6, nil, ""},
		{webhook.JWS, "another id", set("Webhook-Id", "msg_2"), webhook.ErrHeader, "webhook-id is not the signed one"},
		{webhook.JWS, "an old one", late, webhook.ErrTimestamp, "by 5m1s"},
		{webhook.JWS, "forged", set("Webhook-Jws", jws(head, order, forged)), webhook.ErrSignature, ""},
		{webhook.JWS, "forged and old", set("Webhook-Jws", jws(strings.Replace(head, "1614", "1514", 1), order, forged)),
			webhook.ErrSignature, ""},
		{webhook.JWS, "valid with P-256", p256(es256), nil, ""},
		{webhook.JWS, "cut with P-256", p256(func(text []byte) []byte { return es256(text)[:63] }), webhook.ErrSignature, ""},
		{webhook.JWS, "zeros with P-256", p256(func([]byte) []byte { return make([]byte, 64) }), webhook.ErrSignature, ""},
	} {
		t.Run(string(c.scheme)+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			o, h, body := callback(c.scheme)
			c.change(&o, h, &body)
			v, err := webhook.NewVerifier(o)
			if err != nil {
				t.Fatal(err)
			}
			err = v.Verify(h, []byte(body))
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}

// The error contains no part of a key, because it may be a private one.
func TestNewVerifierRefusesInvalidOptions(t *testing.T) {
	t.Parallel()
	private := block("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(edKey)))
	small := public(must(rsa.GenerateKey(rand.Reader, 1024)).Public())
	p384 := public(must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)).Public())
	good := whpk(edKey[32:])
	for _, c := range []struct {
		o    webhook.Options
		want string
	}{
		{webhook.Options{Scheme: "md5"}, `there is no scheme "md5"`},
		{webhook.Options{Scheme: webhook.JWS, Keys: []string{good}}, "needs Host"},
		{webhook.Options{Scheme: webhook.Alipay}, "the scheme alipay needs Keys or a KeySet"},
		{webhook.Options{Scheme: webhook.Alipay, Keys: []string{" "}}, "the scheme alipay needs Keys or a KeySet"},
		{webhook.Options{Scheme: webhook.StandardEd25519, Keys: []string{"whpk_hunter2!"}}, "key 1 is not 32 bytes in base64 after whpk_"},
		{webhook.Options{Scheme: webhook.StandardEd25519, Keys: []string{good, whpk(edKey[1:32])}}, "key 2 is not 32 bytes"},
		{webhook.Options{Scheme: webhook.Alipay, Keys: []string{"hunter2"}}, "is not readable"},
		{webhook.Options{Scheme: webhook.Alipay, Keys: []string{public(rsaKey().Public())[:100]}}, "is not readable"},
		{webhook.Options{Scheme: webhook.Alipay, Keys: []string{private}}, `is in a PEM block "PRIVATE KEY"`},
		{webhook.Options{Scheme: webhook.Alipay, Keys: []string{block("PUBLIC KEY", []byte("hunter2"))}}, "is not a readable public key"},
		{webhook.Options{Scheme: webhook.Alipay, Keys: []string{block("CERTIFICATE", []byte("hunter2"))}}, "is not a readable certificate"},
		{webhook.Options{Scheme: webhook.Alipay, Keys: []string{small}}, "is RSA of less than 2048 bits"},
		{webhook.Options{Scheme: webhook.JWS, Host: "h", Keys: []string{p384}}, "is neither RSA nor Ed25519 nor P-256"},
	} {
		_, err := webhook.NewVerifier(c.o)
		if !errors.Is(err, webhook.ErrSecret) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if err != nil && slices.ContainsFunc([]string{"hunter2", strings.Split(private, "\n")[1]},
			func(part string) bool { return strings.Contains(err.Error(), part) }) {
			t.Errorf("shows a key: %v", err)
		}
	}
}
