package callback

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"notifier/client/webhook"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

const vectorSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func secrets(t testing.TB, s string) []sign.Secret {
	t.Helper()
	out, err := sign.ParseSecrets(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func chainOf(t testing.TB, r *route.Route) *sign.Chain {
	t.Helper()
	chain, err := sign.New(r.Signing())
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// A receiver written with the official library accepts every attempt of a ladder during a rotation of the
// secret.
func TestSignaturesVerifyDuringRotation(t *testing.T) {
	t.Parallel()
	oldSecret := vectorSecret
	newSecret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a second key of thirty-two bytes"))
	var mu sync.Mutex
	var verify *standardwebhooks.Webhook
	ids := map[string]bool{}
	stamps := map[string]bool{}
	base := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		// The library uses the machine's clock, the attempts do not.
		if err := verify.VerifyIgnoringTimestamp(body, r.Header); err != nil {
			t.Errorf("attempt %s: %v", r.Header.Get("Notifier-Attempt"), err)
		}
		ids[r.Header.Get("Webhook-Id")], stamps[r.Header.Get("Webhook-Timestamp")] = true, true
		w.WriteHeader(500)
	}).URL
	now := made
	h := newHandler(t, Options{Now: func() time.Time { return now }})
	phases := []struct{ sender, receiver string }{
		{oldSecret, oldSecret}, {oldSecret + "," + newSecret, oldSecret}, {newSecret + "," + oldSecret, newSecret}, {newSecret, newSecret},
	}
	n := testNotice(`{"order":"4711","paid":true}`)
	attempts := len(notice.DefaultLadder) + 1
	for i := range attempts {
		p := phases[i*len(phases)/attempts]
		r := fixedRoute(base)
		r.Secrets = secrets(t, p.sender)
		wh, err := standardwebhooks.NewWebhook(p.receiver)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		verify = wh
		mu.Unlock()
		expect(t, h.Handle(background(t), r, n), notice.OutcomeRetry, notice.ReasonStatus5xx)
		n.Add(notice.Attempt{Number: n.NextAttempt()})
		if i < len(notice.DefaultLadder) {
			now = now.Add(notice.DefaultLadder[i])
		}
	}
	if len(ids) != 1 || len(stamps) != attempts {
		t.Errorf("%d ids, %d timestamps in %d attempts", len(ids), len(stamps), attempts)
	}
	for id := range ids {
		if strings.Contains(id, ".") {
			t.Errorf("id %s holds a dot", id)
		}
	}
}

func TestLibraryAcceptsFreshTimestamp(t *testing.T) {
	t.Parallel()
	wh, _ := standardwebhooks.NewWebhook(vectorSecret)
	errs := make(chan error, 8)
	base := server(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodGet {
			body = []byte(r.URL.RawQuery)
		}
		errs <- wh.Verify(body, r.Header)
	}).URL
	h := newHandler(t, Options{})
	r := fixedRoute(base + "?x=1")
	r.Secrets = secrets(t, vectorSecret)
	for _, method := range []string{"POST", "PUT", "GET"} {
		n := testNotice(`{"a":1}`)
		n.Method = method
		h.Handle(background(t), r, n)
		if err := <-errs; err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// verifies reports whether a receiver with these keys accepts the request.
func verifies(t testing.TB, key string, r *http.Request, body string) bool {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	return wh.Verify([]byte(body), r.Header) == nil
}

// Two merchants of one route each verify their own callbacks. Neither can make or pass on a callback that the
// other would accept, nor one signed with the route's own secret. During a change of the secret both its keys
// are valid.
func TestNoReceiverCanForgeForAnother(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{Resolver: loopbackNames(t)})
	const other = "whsec_bW9yZSB0aGFuIHR3ZW50eSBmb3VyIGJ5dGVz"
	keys := secrets(t, vectorSecret+","+other)
	port := base[strings.LastIndexByte(base, ':'):]
	const body = `{"paid":true}`
	for _, c := range []struct {
		per      sign.Per
		audience string
		good     []string
		bad      []string
	}{
		{"", "", []string{keys[0].ForHost("shop.example").Reveal(), keys[1].ForHost("shop.example").Reveal()},
			[]string{vectorSecret, keys[0].ForHost("evil.example").Reveal(), keys[0].ForAudience("shop.example").Reveal()}},
		{sign.PerHostRoute, "", []string{keys[0].ForHost("shop.example").Reveal(), vectorSecret, other},
			[]string{keys[0].ForHost("evil.example").Reveal()}},
		{sign.PerAudience, "m17", []string{keys[0].ForAudience("m17").Reveal(), keys[1].ForAudience("m17").Reveal()},
			[]string{vectorSecret, keys[0].ForAudience("m18").Reveal(), keys[0].ForHost("shop.example").Reveal()}},
		{sign.PerRoute, "", []string{vectorSecret, other}, []string{keys[0].ForHost("shop.example").Reveal()}},
	} {
		r := noticeRoute("*.example")
		r.Secrets, r.SignPer = keys, c.per
		n := testNotice(body)
		n.URL, n.Audience = "http://u:p@Shop.EXAMPLE."+port+"/hook", c.audience
		expect(t, h.Handle(background(t), r, n), notice.OutcomeDelivered, "")
		req := <-got
		for _, key := range c.good {
			if !verifies(t, key, req.Request, body) {
				t.Errorf("%q: the receiver refuses its own callback with %s", c.per, key)
			}
		}
		for _, key := range c.bad {
			if verifies(t, key, req.Request, body) {
				t.Errorf("%q: %s, which is another's, verifies it", c.per, key)
			}
		}
	}
	n := testNotice(body)
	n.URL = base
	r := noticeRoute("127.0.0.1")
	r.SignPer, r.Secrets = sign.PerAudience, keys
	res := h.Handle(background(t), r, n)
	expect(t, res, notice.OutcomeDead, notice.ReasonInvalid) // deploy/schedule.lua may have scheduled it
	if !strings.Contains(res.Response, "audience is missing") {
		t.Error(res.Response)
	}
}

// A route's headers, an Authorization for example, were sent to every host that a producer named.
func TestHeadersGoOnlyToListedHosts(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h := newHandler(t, Options{Resolver: loopbackNames(t)})
	r := noticeRoute("*.example")
	r.Headers = []notice.Header{{Name: "Authorization", Value: "Bearer abc"}}
	var err error
	if r.HeadersTo, err = route.ParseOrigins("http://shop.example:*,http://*.bücher.example:*"); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"SHOP.example.": true, "evil.example": false, "shop.example.evil.example": false,
		"a.BÜCHER.example": true} {
		n := testNotice("x")
		n.URL = "http://" + host + base[strings.LastIndexByte(base, ':'):]
		expect(t, h.Handle(background(t), r, n), notice.OutcomeDelivered, "")
		if sent := (<-got).Header.Get("Authorization") == "Bearer abc"; sent != want {
			t.Errorf("%s: sent %v, want %v", host, sent, want)
		}
	}
}

const ed25519Key = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="

var rsaKey = sync.OnceValue(func() string {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}))
})

// compatible are the schemes that one route may have: sorted and sorted-jeepay add the field sign as alipay does.
var compatible = slices.DeleteFunc(slices.Clone(sign.Schemes), sign.Scheme.Text)

// sortedRoute is a route to base that signs with the scheme sorted and one key for all receivers.
func sortedRoute(t testing.TB, base string) *route.Route {
	t.Helper()
	r := fixedRoute(base)
	var err error
	if r.TextKey, err = sign.ParseTextKey("192006250b4c09247ec02edce69f6a2d"); err != nil {
		t.Fatal(err)
	}
	r.Sign, r.SignPer = []sign.Scheme{sign.Sorted}, sign.PerRoute
	return r
}

// The signature of the scheme sorted arrives in the body, also if the notice is JSON.
func TestCallbackHasTheFieldSign(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h, r := newHandler(t, Options{}), sortedRoute(t, base)
	for _, n := range []*notice.Notice{testNotice(`{"b":1,"a":"x"}`), formNotice("b=1&a=x")} {
		expect(t, h.Handle(background(t), r, n), notice.OutcomeDelivered, "")
		req := <-got
		v, err := webhook.NewVerifier(webhook.Options{Scheme: webhook.Sorted, Secrets: []string{r.TextKey.Reveal()}})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(req.Header, []byte(req.body)); err != nil || req.Header.Get("Webhook-Id") != n.ID() {
			t.Errorf("%s: %v", req.body, err)
		}
		if text := h.Probe(background(t), r, n).String(); !strings.Contains(text, `* sorted signed "a=x&b=1&key=`) ||
			strings.Contains(text, r.TextKey.Reveal()) {
			t.Error(text)
		}
		<-got // of the probe
	}
}

// allSchemes is a route to base that signs with every scheme that may be combined.
func allSchemes(t testing.TB, base string) *route.Route {
	t.Helper()
	r := fixedRoute(base)
	r.Sign, r.Secrets = compatible, secrets(t, vectorSecret)
	var err error
	if r.SignKeys, err = sign.ParseKeys(rsaKey()+ed25519Key, []string{"PUB_1"}); err != nil {
		t.Fatal(err)
	}
	return r
}

func formNotice(body string) *notice.Notice {
	n := testNotice(body)
	n.ContentType = "application/x-www-form-urlencoded"
	return n
}

// A callback carries the signatures of all schemes, and they sign the bytes that arrive.
func TestCallbackHasEverySignature(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	r := allSchemes(t, base)
	n := formNotice("order=4711&note=a+b")
	n.Headers = []notice.Header{{Name: "wechatpay_serial", Value: "forged"}, {Name: "Webhook-Jws", Value: "forged"},
		{Name: "X-Other", Value: "kept"}}
	expect(t, newHandler(t, Options{}).Handle(background(t), r, n), notice.OutcomeDelivered, "")
	req := <-got
	if req.Header.Get("X-Other") != "kept" || req.Header.Get("wechatpay_serial") != "" || len(req.Header["Webhook-Jws"]) != 1 {
		t.Errorf("%v", req.Header)
	}
	keys := []string{r.SignKeys[0].PublicPEM() + r.SignKeys[1].PublicPEM()}
	for _, scheme := range compatible {
		v, err := webhook.NewVerifier(webhook.Options{Scheme: webhook.Scheme(scheme), Secrets: []string{vectorSecret}, Keys: keys,
			Host: "127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(req.Header, []byte(req.body)); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// deploy/schedule.lua and restore do not check a notice against the schemes, so it is checked before it is
// sent.
func TestUnsignableNoticeIsDead(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	h, r := newHandler(t, Options{}), allSchemes(t, base)
	for body, want := range map[string]string{"a=1&a=2": "more than once", "sign=x": "field sign", "a=": "no value"} {
		res := h.Handle(background(t), r, formNotice(body))
		expect(t, res, notice.OutcomeDead, notice.ReasonInvalid)
		if !strings.Contains(res.Response, want) {
			t.Errorf("%s: %s", body, res.Response)
		}
	}
	expect(t, h.Handle(background(t), r, testNotice(`{"a":1}`)), notice.OutcomeDead, notice.ReasonInvalid)
	expect(t, h.Handle(background(t), sortedRoute(t, base), testNotice(`{"a":{"b":1}}`)), notice.OutcomeDead, notice.ReasonInvalid)
	select {
	case req := <-got:
		t.Errorf("called: %s", req.body)
	default:
	}
}

func TestProbeShowsTheSignedTexts(t *testing.T) {
	t.Parallel()
	base, _ := capture(t)
	x := newHandler(t, Options{}).Probe(background(t), allSchemes(t, base), formNotice("b=2&a=1"))
	text := x.String()
	for _, want := range []string{`* alipay signed "a=1&b=2"`, `* github signed "b=2&a=1&sign_type=RSA2&sign=`, "> wechatpay-serial: PUB_1\n", "> webhook-jws: ey", `* jws signed "ey`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if len(x.Signed) != len(compatible) {
		t.Errorf("%v\n%s", x.Signed, text)
	}
}
