package sign

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/client/webhook"
)

const (
	vectorSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	// svixKey is the key of a test in svix-webhooks v1.44.0, server/svix-server/src/worker.rs.
	svixKey = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)

// others are the schemes but those that add the field sign as alipay does.
var others = Schemes[:len(Schemes)-2]

func vectorMessage() *Message {
	return &Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", At: time.Unix(1614265330, 0), Body: []byte(`{"test": 2432232314}`),
		Type: "application/json", Host: "shop.example"}
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func pemOf(t testing.TB, private any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func p256(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func certificate(t testing.TB, private crypto.Signer, serial int64) string {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "notifier"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func keys(t testing.TB, text string, ids ...string) []*Key {
	t.Helper()
	list, err := ParseKeys(text, ids)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func secrets(t testing.TB, s string) []Secret {
	t.Helper()
	list, err := ParseSecrets(s)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func signed(t testing.TB, s *Settings, m *Message) Signed {
	t.Helper()
	if s.Per == "" {
		s.Per = PerRoute
	}
	c, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Sign(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *Signed) header(m *Message) http.Header {
	h := http.Header{"Webhook-Id": {m.ID}, "Webhook-Timestamp": {"1614265330"}}
	for _, f := range s.Fields {
		h.Set(f.Name, f.Value)
	}
	return h
}

func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	both := &Settings{Schemes: []Scheme{Standard, StandardEd25519}, Secrets: secrets(t, vectorSecret), Keys: keys(t, svixKey)}
	want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= " +
		"v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
	for range 2 { // the second time with a pooled hash
		out := signed(t, both, vectorMessage())
		if len(out.Fields) != 1 || out.Fields[0] != (Field{"webhook-signature", want}) {
			t.Errorf("%v, want %s", out.Fields, want)
		}
	}
	// GitHub's documentation: "It's a Secret to Everybody", "Hello, World!".
	hub := &Settings{Schemes: []Scheme{GitHub}, Secrets: []Secret{{text: "It's a Secret to Everybody"}}}
	m := vectorMessage()
	m.Body = []byte("Hello, World!")
	if out := signed(t, hub, m); out.Fields[0].Value != "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17" {
		t.Error(out.Fields)
	}
}

func TestThumbprintsOfTheSpecifications(t *testing.T) {
	t.Parallel()
	for want, j := range map[string]jwk{
		// RFC 7638, section 3.1; RFC 8037, appendix A.3.
		"NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs": {Type: "RSA", Exponent: "AQAB",
			Modulus: "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMs" +
				"tn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0f" +
				"M4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"},
		"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k": {Type: "OKP", Curve: "Ed25519", X: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
	} {
		if got := j.thumbprint(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Each scheme is verified by the client's code, which shares none with this package, from keys
// and from the published set; a change of anything that is signed is refused.
func TestSchemesVerify(t *testing.T) {
	t.Parallel()
	ec, form := p256(t), []byte("order_id=4711&note=a+b%26c&amount=10.00")
	list := keys(t, pemOf(t, rsaKey())+certificate(t, rsaKey(), 0xABC)+svixKey)
	jwsKeys := keys(t, pemOf(t, ec))
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(Set(append(list, jwsKeys...)))
	}))
	t.Cleanup(served.Close)
	set, err := webhook.NewKeySet(served.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		s    Settings
		body []byte
		typ  string
		by   webhook.Options
	}{
		{"standard", Settings{Schemes: []Scheme{Standard}}, form, "", webhook.Options{}},
		{"stripe", Settings{Schemes: []Scheme{Stripe}, Headers: Headers{Stripe: "Acme-Signature"}}, form, "",
			webhook.Options{Scheme: webhook.Stripe, Header: "Acme-Signature"}},
		{"standard with a free name", Settings{Schemes: []Scheme{Standard}, Headers: Headers{Standard: "x-acme-digest"}}, form, "",
			webhook.Options{Header: "X-Acme-Digest"}},
		{"standard and Ed25519 with free names", Settings{Schemes: []Scheme{Standard, StandardEd25519}, Keys: list,
			Headers: Headers{Standard: "A-Id|A-Time|A-Sig", StandardEd25519: "A-Id|A-Time|A-Sig"}}, form, "",
			webhook.Options{Header: "A-Id|A-Time|A-Sig"}},
		{"wechatpay with free names", Settings{Schemes: []Scheme{WechatPay}, Keys: list, Headers: Headers{WechatPay: "T|N|S|X"}}, form, "",
			webhook.Options{Scheme: webhook.WechatPay, KeySet: set, Header: "T|N|S|X"}},
		{"github", Settings{Schemes: []Scheme{GitHub}}, form, "", webhook.Options{Scheme: webhook.GitHub}},
		{"ed25519", Settings{Schemes: []Scheme{StandardEd25519}, Keys: list}, form, "", webhook.Options{Scheme: webhook.StandardEd25519,
			Keys: []string{list[1].Public()}}},
		{"ed25519 by set", Settings{Schemes: []Scheme{StandardEd25519}, Keys: list}, form, "", webhook.Options{Scheme: webhook.StandardEd25519,
			KeySet: set}},
		{"wechatpay", Settings{Schemes: []Scheme{WechatPay}, Keys: list}, form, "", webhook.Options{Scheme: webhook.WechatPay,
			Keys: []string{list[0].Certificate()}}},
		{"wechatpay by public key", Settings{Schemes: []Scheme{WechatPay}, Keys: list}, form, "", webhook.Options{Scheme: webhook.WechatPay,
			Keys: []string{list[0].PublicPEM()}}},
		{"wechatpay by set", Settings{Schemes: []Scheme{WechatPay}, Keys: list}, form, "", webhook.Options{Scheme: webhook.WechatPay,
			KeySet: set}},
		{"alipay", Settings{Schemes: []Scheme{Alipay}, Keys: list}, form, formType, webhook.Options{Scheme: webhook.Alipay,
			Keys: []string{list[0].PublicPEM()}}},
		{"alipay by set", Settings{Schemes: []Scheme{Alipay}, Keys: list}, form, formType + "; charset=UTF-8",
			webhook.Options{Scheme: webhook.Alipay, KeySet: set}},
		{"jws", Settings{Schemes: []Scheme{JWS}, Keys: list}, form, "", webhook.Options{Scheme: webhook.JWS, Keys: []string{list[1].Public()},
			Host: "Shop.Example."}},
		{"jws by set", Settings{Schemes: []Scheme{JWS}, Keys: list}, form, "", webhook.Options{Scheme: webhook.JWS, KeySet: set,
			Host: "shop.example"}},
		{"jws with P-256", Settings{Schemes: []Scheme{JWS}, Keys: jwsKeys}, form, "", webhook.Options{Scheme: webhook.JWS,
			Keys: []string{jwsKeys[0].PublicPEM()}, Host: "shop.example"}},
		{"jws with P-256 by set", Settings{Schemes: []Scheme{JWS}, Keys: jwsKeys}, form, "", webhook.Options{Scheme: webhook.JWS, KeySet: set,
			Host: "shop.example"}},
		{"all", Settings{Schemes: others, Keys: list}, form, formType, webhook.Options{Scheme: webhook.JWS, KeySet: set, Host: "shop.example"}},
		{"all", Settings{Schemes: others, Keys: list}, form, formType, webhook.Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Secrets = secrets(t, vectorSecret)
			if c.by.Scheme == "" || c.by.Scheme == webhook.Stripe || c.by.Scheme == webhook.GitHub {
				c.by.Secrets = []string{vectorSecret}
			}
			m := vectorMessage()
			m.Body, m.Type = c.body, c.typ
			verify(t, c.by, m, signed(t, &c.s, m))
		})
	}
}

func verify(t *testing.T, by webhook.Options, m *Message, out Signed) {
	t.Helper()
	by.Now = func() time.Time { return m.At }
	v, err := webhook.NewVerifier(by)
	if err != nil {
		t.Fatal(err)
	}
	h := out.header(m)
	r, err := v.Check(context.Background(), h, out.Body)
	if err != nil {
		t.Fatalf("%v: %v", err, h)
	}
	untimed := by.Scheme == webhook.GitHub || by.Scheme == webhook.Alipay
	if r.TimeUnchecked != untimed || !untimed && !r.At.Equal(m.At) {
		t.Errorf("%+v", r)
	}
	changed := []byte(strings.Replace(string(out.Body), "4711", "4712", 1))
	if err := v.Verify(h, changed); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("a changed body: %v", err)
	}
	v.Now = func() time.Time { return m.At.Add(6 * time.Minute) }
	if err := v.Verify(h, out.Body); untimed != (err == nil) || !untimed && !errors.Is(err, webhook.ErrTimestamp) {
		t.Errorf("six minutes later: %v", err)
	}
	other := by
	other.Host = "other.example"
	if w, err := webhook.NewVerifier(other); err != nil || by.Scheme == webhook.JWS && !errors.Is(w.Verify(h, out.Body), webhook.ErrHost) {
		t.Errorf("another host takes it: %v", err)
	}
}

// The signed text matches the scheme's description.
func TestExplainedTexts(t *testing.T) {
	t.Parallel()
	s := &Settings{Schemes: others, Secrets: secrets(t, vectorSecret), Keys: keys(t, pemOf(t, rsaKey())+svixKey, "PUB_1")}
	m := vectorMessage()
	m.Body, m.Type, m.Explain = []byte("b=2&a=1"), formType, true
	out := signed(t, s, m)
	got := map[Scheme]string{}
	for _, x := range out.Texts {
		got[x.Scheme] = string(x.Bytes)
	}
	body := string(out.Body)
	if !strings.HasPrefix(body, "b=2&a=1&sign_type=RSA2&sign=") {
		t.Error(body)
	}
	for scheme, want := range map[Scheme]string{Standard: m.ID + ".1614265330." + body, StandardEd25519: m.ID + ".1614265330." + body,
		Stripe: "1614265330." + body, GitHub: body, Alipay: "a=1&b=2"} {
		if got[scheme] != want {
			t.Errorf("%s signed %q, want %q", scheme, got[scheme], want)
		}
	}
	if !strings.HasPrefix(got[WechatPay], "1614265330\n") || !strings.HasSuffix(got[WechatPay], "\n"+body+"\n") {
		t.Errorf("%q", got[WechatPay])
	}
	head, _, _ := strings.Cut(got[JWS], ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	var p protected
	if err != nil || json.Unmarshal(raw, &p) != nil || p.ID != m.ID || p.Host != "shop.example" || p.Algorithm != "EdDSA" ||
		p.Key != s.Keys[1].ID {
		t.Errorf("%s, %v", raw, err)
	}
	if len(s.Recipes()) != len(others) {
		t.Error(s.Recipes())
	}
}

func TestHMACKeysOfReceivers(t *testing.T) {
	t.Parallel()
	list := secrets(t, vectorSecret+",whsec_bW9yZSB0aGFuIHR3ZW50eSBmb3VyIGJ5dGVz")
	for per, want := range map[Per][]string{
		PerRoute:     {list[0].Reveal(), list[1].Reveal()},
		PerHost:      {list[0].ForHost("shop.example").Reveal(), list[1].ForHost("shop.example").Reveal()},
		PerAudience:  {list[0].ForAudience("m17").Reveal(), list[1].ForAudience("m17").Reveal()},
		PerHostRoute: {list[0].ForHost("shop.example").Reveal(), list[1].ForHost("shop.example").Reveal(), list[0].Reveal(), list[1].Reveal()},
	} {
		m := vectorMessage()
		m.Audience = "m17"
		out := signed(t, &Settings{Schemes: []Scheme{Standard, Stripe, GitHub}, Secrets: list, Per: per}, m)
		for i, secret := range want {
			for _, scheme := range []webhook.Scheme{webhook.Standard, webhook.Stripe, webhook.GitHub} {
				v, err := webhook.NewVerifier(webhook.Options{Scheme: scheme, Secrets: []string{secret}, Now: func() time.Time { return m.At }})
				if err != nil {
					t.Fatal(err)
				}
				err = v.Verify(out.header(m), out.Body)
				if first := i == 0; (err == nil) != (scheme != webhook.GitHub || first) {
					t.Errorf("%s, %s, secret %d: %v", per, scheme, i, err)
				}
			}
		}
	}
}

func TestCheckForm(t *testing.T) {
	t.Parallel()
	alipay := Settings{Schemes: []Scheme{Alipay}}
	for body, want := range map[string]string{
		"a=1": "", "a=1&b=x%20y&": "", "charset=UTF-8&a=1": "", "a_-Z9=%E5%A5%BD": "",
		"%E4%BD%A0=1": "want a name of letters", "a%5B%5D=1": "want a name of letters", "a.b=1": "want a name of letters",
		"a=@b": "begins with @", "a=%40b": "begins with @", "a=+@b": "",
		"": "not a form", "a": "no value", "a=": "no value", "a=%20": "no value", "=1": "not a form", "a=%zz": "not a form",
		"a=1;b=2": "semicolon",
		"a=1&a=2": "more than once", "a=1&%61=2": "more than once", "sign=x&a=1": "field sign,", "sign_type=RSA2&a=1": "field sign_type,",
		"a=%C4%E3": "UTF-8", "charset=gbk&a=1": "charset", `{"a":1}`: "no value",
	} {
		err := alipay.CheckBody([]byte(body), formType)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
	for typ, ok := range map[string]bool{formType: true, formType + ";charset=utf-8": true, formType + "; charset=GBK": false,
		"application/json": false, "": false} {
		var form *BodyError
		if err := alipay.CheckBody([]byte("a=1"), typ); (err == nil) != ok || err != nil && (!errors.As(err, &form) || !form.Type) {
			t.Errorf("%q: %v", typ, err)
		}
	}
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	pkcs1 := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey())}))
	seed := make([]byte, 32)
	seed[0] = 7
	whsk := "whsk_" + base64.StdEncoding.EncodeToString(seed)
	list := keys(t, pkcs1+"\n"+whsk+" ,"+svixKey+"\n"+pemOf(t, p256(t)))
	if len(list) != 4 || list[0].Type != RSA || list[1].Type != Ed25519 || list[3].Type != P256 || list[0].Serial != "" ||
		len(list[0].ID) != 43 {
		t.Errorf("%v", list)
	}
	if k := keys(t, pkcs1+certificate(t, rsaKey(), 0xABC))[0]; k.ID != "ABC" || k.Serial != "ABC" {
		t.Errorf("%v", k)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wrong := make([]byte, 64)
	for text, want := range map[string]string{
		"":              "no key",
		"hunter2":       "key 1 is neither PEM",
		whsk + ",whsk_": "key 2 has 0 bytes",
		"whsk_" + base64.StdEncoding.EncodeToString(wrong): "public part",
		"whsk_hunter2!":                       "not base64",
		pemOf(t, small):                       "1024 bits",
		pemOf(t, p384):                        "P-384",
		pkcs1 + pkcs1:                         "same as key 1",
		pkcs1[:len(pkcs1)-40]:                 "not readable as PEM",
		strings.ReplaceAll(pkcs1, "\n", `\n`): "not readable as PEM",
		pkcs1 + certificate(t, p256(t), 5):    "certificate 1 is for none",
		"-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----":                 "PUBLIC KEY",
		"-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----": "not readable",
	} {
		_, err := ParseKeys(text, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "aHVudG") {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	var ids *IDsError
	for _, given := range [][]string{{"a", "b"}, {""}, {"a b"}} {
		if _, err := ParseKeys(pkcs1, given); !errors.As(err, &ids) {
			t.Errorf("%v: %v", given, err)
		}
	}
}

func TestKeysPrintNothingPrivate(t *testing.T) {
	t.Parallel()
	k := keys(t, svixKey)[0]
	text, err := json.Marshal(k)
	if err != nil || strings.Contains(string(text), "6Xb") || len(k.String()) > 60 {
		t.Errorf("%s, %v, %v", text, k, err)
	}
	if public := k.Public(); public != "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=" {
		t.Error(public)
	}
}

func TestParseHeaders(t *testing.T) {
	t.Parallel()
	reserved := func(name string) bool { return strings.HasPrefix(strings.ToLower(name), "notifier-") || name == "Host" }
	h, err := ParseHeaders("stripe:acme-signature, github:X-Acme-256,wechatpay:Acme", reserved)
	if err != nil || h.String() != "stripe:acme-signature,github:X-Acme-256,wechatpay:Acme" ||
		strings.Join(h.Of(WechatPay), " ") != "Acme-Timestamp Acme-Nonce Acme-Signature Acme-Serial" {
		t.Errorf("%s, %v", h, err)
	}
	for _, s := range []string{"", "stripe", "alipay:X", "sorted:X", "standard:X|Y", "standard:X|Y|x", "stripe:X|Y", "wechatpay:A|B|C",
		"standard:Host", "standard:A||B", "stripe:", "stripe:a b", "stripe:X_Y", "stripe:Host",
		"github:Notifier-Signature", "stripe:A,stripe:B"} {
		if h, err := ParseHeaders(s, reserved); err == nil {
			t.Errorf("%q was read as %v", s, h)
		}
	}
	free, err := ParseHeaders("standard:svix-id|svix-timestamp|svix-signature,wechatpay:T|N|S|X", reserved)
	if err != nil || strings.Join(free.Of(Standard), " ") != "svix-id svix-timestamp svix-signature" ||
		strings.Join(free.Of(WechatPay), " ") != "T N S X" ||
		free.String() != "standard:svix-id|svix-timestamp|svix-signature,wechatpay:T|N|S|X" {
		t.Errorf("%s, %v", free, err)
	}
	for own, clash := range map[string]string{"standard:A-Digest": "", "standard:I|T|S,standard-ed25519:I|T|S": "",
		"standard:I|T|S,standard-ed25519:S": "", "standard:I|T|S,standard-ed25519:T|I|S": "T", "standard:I|T|S,standard-ed25519:s": "s",
		"standard:X-Sig,stripe:x-sig": "x-sig"} {
		h, err := ParseHeaders(own, reserved)
		if got := h.Clash([]Scheme{Standard, StandardEd25519, Stripe}); err != nil || got != clash {
			t.Errorf("%s: %q, %v", own, got, err)
		}
	}
	s := &Settings{Schemes: []Scheme{Stripe, WechatPay}, Headers: h}
	for name, want := range map[string]bool{"acme_signature": true, "ACME-Serial": true, "acme_nonce": true, "X-Acme-256": false,
		"Wechatpay-Nonce": false} {
		if s.Reserves(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if c := (Headers{Stripe: "A", GitHub: "A"}).Clash([]Scheme{Stripe, GitHub}); c != "A" {
		t.Error(c)
	}
	if c := Headers(nil).Clash(Schemes); c != "" {
		t.Error(c)
	}
}

func TestSchemesNeedKeys(t *testing.T) {
	t.Parallel()
	for scheme, want := range map[Scheme]string{Standard: "secret", Stripe: "secret", GitHub: "secret", StandardEd25519: "Ed25519",
		WechatPay: "RSA", Alipay: "RSA", JWS: "P-256",
		Sorted: "text", SortedJeepay: "text"} {
		var need *NeedError
		if _, err := New(&Settings{Schemes: []Scheme{scheme}}); !errors.As(err, &need) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
	var need *NeedError
	if _, err := New(&Settings{Schemes: []Scheme{WechatPay}, Keys: keys(t, pemOf(t, rsaKey()))}); !errors.As(err, &need) || !need.Serial {
		t.Error(err)
	}
	if _, err := ParseSchemes("stripe,stripe"); err == nil {
		t.Error("twice")
	}
	if _, err := ParseSchemes("md5"); err == nil || !strings.Contains(err.Error(), "wechatpay") {
		t.Error(err)
	}
}

func BenchmarkSign(b *testing.B) {
	list := keys(b, pemOf(b, rsaKey())+svixKey+pemOf(b, p256(b)), "PUB_1")
	run := func(name string, s Settings) {
		b.Run(name, func(b *testing.B) {
			s.Secrets, s.TextKey = secrets(b, vectorSecret), textSettings(b, Sorted).TextKey
			c, err := New(&s)
			if err != nil {
				b.Fatal(err)
			}
			m := vectorMessage()
			m.Body, m.Type = []byte("a="+strings.Repeat("x", 200)), formType
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Sign(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, scheme := range Schemes {
		run(string(scheme), Settings{Schemes: []Scheme{scheme}, Keys: list, Per: PerRoute})
	}
	run("standard per host", Settings{Schemes: []Scheme{Standard}, Per: PerHost})
	run("jws with P-256", Settings{Schemes: []Scheme{JWS}, Keys: list[2:], Per: PerRoute})
}
