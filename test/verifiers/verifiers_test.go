package verifiers

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-pay/gopay"
	gopayalipay "github.com/go-pay/gopay/alipay"
	gopaywechat "github.com/go-pay/gopay/wechat"
	"github.com/google/go-github/v72/github"
	"github.com/smartwalle/alipay/v3"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	stripe "github.com/stripe/stripe-go/v82/webhook"
	"github.com/wechatpay-apiv3/wechatpay-go/core/auth/validators"
	"github.com/wechatpay-apiv3/wechatpay-go/core/auth/verifiers"
)

const (
	secret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	textKey = "192006250b4c09247ec02edce69f6a2d"
	serial  = "PUB_KEY_ID_0114000000000000000000000001"
	// form is read by Alipay's SDKs in different ways if it is not encoded well.
	form = "trade_no=4711&subject=%E6%B5%8B%E8%AF%95+a%26b&total_amount=10.00&merchant=m17"
	body = `{"order": "4711", "paid": true}`
)

// verify verifies a request as a merchant does.
type verify func(r *http.Request, body []byte) error

// pair is a private key in PEM and the public key.
type pair struct{ private, public string }

func newRSA(t *testing.T) pair {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pairOf(t, k, k.Public())
}

func newEd25519(t *testing.T) pair {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pairOf(t, private, public)
}

func pairOf(t *testing.T, private, public any) pair {
	t.Helper()
	p, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	q, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pair{string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: q}))}
}

// parsed is a public key in PEM.
func parsed(text string) (any, error) {
	block, _ := pem.Decode([]byte(text))
	return x509.ParsePKIXPublicKey(block.Bytes)
}

// TestThirdPartyLibrariesVerify checks a real callback of each scheme with a third-party
// library: the library accepts it, and refuses it with a changed body.
func TestThirdPartyLibrariesVerify(t *testing.T) {
	rsaKey, edKey := newRSA(t), newEd25519(t)
	var s *service // the receiver of jws fetches its key set
	checks := map[string]verify{
		"standard": byStandardWebhooks, "standard-ed25519": byOpenSSL(t, edKey.public), "stripe": byStripe, "github": byGitHub,
		"wechatpay": byWechatPay(rsaKey.public), "alipay": byAlipay(t, rsaKey.public), "jws": byJOSE(func() string { return s.url }),
		"sorted": byGopay, "standard-free": bySvixNames,
	}
	got := make(chan error, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- both(checks[r.URL.Path[1:]], r) }))
	t.Cleanup(receiver.Close)

	env := map[string]string{}
	var names []string
	for scheme := range checks {
		name := strings.ReplaceAll(scheme, "-", "")
		names = append(names, name)
		begin := "ROUTE_" + strings.ToUpper(name) + "_"
		env[begin+"PREFIX"], env[begin+"TARGET"], env[begin+"SIGN"] = "app:"+name, receiver.URL+"/"+scheme, scheme
		switch scheme {
		case "standard-free":
			env[begin+"SIGN"], env[begin+"SECRET"] = "standard", secret
			env[begin+"SIGN_HEADER"] = "standard:svix-id|svix-timestamp|svix-signature"
		case "sorted":
			env[begin+"SIGN_TEXT_KEY"] = textKey
		case "standard", "stripe", "github":
			env[begin+"SECRET"] = secret
		case "wechatpay", "alipay":
			env[begin+"SIGN_KEY"], env[begin+"SIGN_KEY_ID"] = rsaKey.private, serial
		default:
			env[begin+"SIGN_KEY"] = edKey.private
		}
	}
	env["ROUTES"] = strings.Join(names, ",")
	s = serve(t, redisServer(t), env)

	for scheme := range checks {
		t.Run(scheme, func(t *testing.T) {
			typ, text := "application/json", body
			if scheme == "alipay" || scheme == "sorted" {
				typ, text = "application/x-www-form-urlencoded", form
			}
			if err := s.schedule("app:"+strings.ReplaceAll(scheme, "-", "")+":paid:1", typ, text); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-got:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("no callback came")
			}
		})
	}
}

// both verifies a request unchanged, and once more with another body.
func both(check verify, r *http.Request) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if err := check(r, data); err != nil {
		return fmt.Errorf("the callback is refused: %w: %v %s", err, r.Header, data)
	}
	if check(r, bytes.Replace(data, []byte("4711"), []byte("4712"), 1)) == nil {
		return errors.New("a changed callback is accepted")
	}
	return nil
}

func byStandardWebhooks(r *http.Request, body []byte) error {
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	return w.Verify(body, r.Header)
}

// byOpenSSL verifies v1a after the specification with openssl's Ed25519.
func byOpenSSL(t *testing.T, public string) verify {
	dir := t.TempDir()
	return func(r *http.Request, body []byte) error {
		encoded, ok := strings.CutPrefix(r.Header.Get("Webhook-Signature"), "v1a,")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil {
			return fmt.Errorf("no v1a signature: %w", err)
		}
		text := r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "." + string(body)
		for name, data := range map[string]string{"key": public, "signature": string(signature), "text": text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
				return err
			}
		}
		cmd := exec.Command("openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "key", "-sigfile", "signature", "-in", "text")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

func byStripe(r *http.Request, body []byte) error {
	return stripe.ValidatePayload(body, r.Header.Get("Notifier-Signature"), secret)
}

func byGitHub(r *http.Request, body []byte) error {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	_, err := github.ValidatePayload(again, []byte(secret))
	return err
}

// byGopay verifies the signature of WeChat Pay's API v2.
func byGopay(_ *http.Request, body []byte) error {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return err
	}
	bean := gopay.BodyMap{}
	for name := range values {
		bean[name] = values.Get(name)
	}
	if ok, err := gopaywechat.VerifySign(textKey, values.Get("sign_type"), bean); err != nil || !ok {
		return fmt.Errorf("gopay: %v, %w", ok, err)
	}
	return nil
}

// bySvixNames verifies standard by the names of Svix's headers.
func bySvixNames(r *http.Request, body []byte) error {
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	h := http.Header{}
	for _, name := range []string{"Id", "Timestamp", "Signature"} {
		h.Set("Webhook-"+name, r.Header.Get("Svix-"+name))
	}
	return wh.Verify(body, h)
}

func byWechatPay(public string) verify {
	return func(r *http.Request, body []byte) error {
		key, err := parsed(public)
		if err != nil {
			return err
		}
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		v := verifiers.NewSHA256WithRSAPubkeyVerifier(serial, *key.(*rsa.PublicKey))
		return validators.NewWechatPayNotifyValidator(v).Validate(context.Background(), again)
	}
}

func byAlipay(t *testing.T, public string) verify {
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	client, err := alipay.New("app", base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PrivateKey(own)), true)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(public))
	key := base64.StdEncoding.EncodeToString(block.Bytes)
	if err := client.LoadAliPayPublicKey(key); err != nil {
		t.Fatal(err)
	}
	return func(_ *http.Request, body []byte) error {
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return err
		}
		if err := client.VerifySign(values); err != nil {
			return fmt.Errorf("smartwalle/alipay: %w", err)
		}
		bean := gopay.BodyMap{}
		for name := range values {
			bean[name] = values.Get(name)
		}
		if ok, err := gopayalipay.VerifySign(key, bean); err != nil || !ok {
			return fmt.Errorf("gopay: %v, %w", ok, err)
		}
		return nil
	}
}

// byJOSE verifies with the keys that the service publishes.
func byJOSE(service func() string) verify {
	return func(r *http.Request, body []byte) error {
		set, err := fetch(service())
		if err != nil {
			return err
		}
		return jwsFits(r, body, set)
	}
}

func fetch(service string) (*jose.JSONWebKeySet, error) {
	resp, err := http.Get(service + "/.well-known/jwks.json")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "public, max-age=300" {
		return nil, fmt.Errorf("%s %v", resp.Status, resp.Header)
	}
	set := &jose.JSONWebKeySet{}
	return set, json.NewDecoder(resp.Body).Decode(set)
}

func jwsFits(r *http.Request, body []byte, set *jose.JSONWebKeySet) error {
	object, err := jose.ParseDetached(r.Header.Get("Webhook-Jws"), body, []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256})
	if err != nil {
		return err
	}
	keys := set.Key(object.Signatures[0].Protected.KeyID)
	if len(keys) != 1 {
		return fmt.Errorf("%d keys have the id %s", len(keys), object.Signatures[0].Protected.KeyID)
	}
	if err := object.DetachedVerify(body, keys[0]); err != nil {
		return err
	}
	if host := object.Signatures[0].Protected.ExtraHeaders["host"]; host != "127.0.0.1" {
		return fmt.Errorf("it is for %v", host)
	}
	return nil
}
