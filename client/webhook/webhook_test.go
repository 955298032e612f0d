package webhook_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/client/webhook"
)

const (
	published = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	stamp     = 1614265330
)

var (
	other   = "whsec_" + base64.StdEncoding.EncodeToString([]byte("a second key of thirty-two bytes"))
	payload = []byte(`{"test": 2432232314}`)
)

// vector has the headers of the example that Standard Webhooks publishes.
func vector() http.Header {
	h := http.Header{}
	h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set("webhook-timestamp", "1614265330")
	h.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	return h
}

func at(t *testing.T, off time.Duration, secrets ...string) *webhook.Verifier {
	t.Helper()
	v, err := webhook.New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	v.Now = func() time.Time { return time.Unix(stamp, 0).Add(off) }
	return v
}

func TestVerifyChecksSignatureAndTime(t *testing.T) {
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	add := func(name, value string) func(http.Header) { return func(h http.Header) { h.Add(name, value) } }
	wrong := "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32))
	good := vector().Get("webhook-signature")
	for name, c := range map[string]struct {
		secrets []string
		off     time.Duration
		change  func(http.Header)
		body    string
		want    error
	}{
		"the published vector":            {},
		"five minutes old":                {off: 5 * time.Minute},
		"five minutes ahead":              {off: -5 * time.Minute},
		"older than that":                 {off: 5*time.Minute + time.Second, want: webhook.ErrTimestamp},
		"further ahead":                   {off: -5*time.Minute - time.Second, want: webhook.ErrTimestamp},
		"two secrets, the second fits":    {secrets: []string{other, published}},
		"two secrets in one string":       {secrets: []string{other + ", " + published}},
		"an unpadded secret":              {secrets: []string{strings.TrimRight(published, "=")}},
		"another secret":                  {secrets: []string{other}, want: webhook.ErrSignature},
		"two signatures, the second fits": {change: set("webhook-signature", wrong+" "+good)},
		"a signature of a later version":  {change: set("webhook-signature", "v1a,x "+good)},
		"two headers of signatures":       {change: func(h http.Header) { h["Webhook-Signature"] = []string{wrong, good} }},
		"a wrong signature":               {change: set("webhook-signature", wrong), want: webhook.ErrSignature},
		"a signature cut short":           {change: set("webhook-signature", good[:20]), want: webhook.ErrSignature},
		"a signature without version":     {change: set("webhook-signature", good[3:]), want: webhook.ErrSignature},
		"the right one behind a thousand": {change: set("webhook-signature", strings.Repeat(wrong+" ", 1000)+good), want: webhook.ErrSignature},
		"another id":                      {change: set("webhook-id", "msg_other"), want: webhook.ErrSignature},
		"another body":                    {body: `{"test":2432232314}`, want: webhook.ErrSignature},
		"another time":                    {change: set("webhook-timestamp", "1614265331"), want: webhook.ErrSignature},
		"no id":                           {change: func(h http.Header) { h.Del("webhook-id") }, want: webhook.ErrHeader},
		"two ids":                         {change: add("webhook-id", "x"), want: webhook.ErrHeader},
		"no time":                         {change: func(h http.Header) { h.Del("webhook-timestamp") }, want: webhook.ErrHeader},
		"two times":                       {change: add("webhook-timestamp", "1614265330"), want: webhook.ErrHeader},
		"a time with a sign":              {change: set("webhook-timestamp", "+1614265330"), want: webhook.ErrHeader},
		"a time in words":                 {change: set("webhook-timestamp", "now"), want: webhook.ErrHeader},
		"a time beyond all":               {change: set("webhook-timestamp", "9223372036854775807"), want: webhook.ErrTimestamp},
		"a time before all":               {change: set("webhook-timestamp", "-9223372036854775808"), want: webhook.ErrTimestamp},
		"no signature":                    {change: func(h http.Header) { h.Del("webhook-signature") }, want: webhook.ErrHeader},
		"an empty signature":              {change: set("webhook-signature", ""), want: webhook.ErrHeader},
	} {
		t.Run(name, func(t *testing.T) {
			h := vector()
			if c.change != nil {
				c.change(h)
			}
			if c.secrets == nil {
				c.secrets = []string{published}
			}
			body := payload
			if c.body != "" {
				body = []byte(c.body)
			}
			if err := at(t, c.off, c.secrets...).Verify(h, body); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// Short secrets could be guessed. The error of an invalid secret contains none of its letters.
func TestVerifyRefusesInvalidSecrets(t *testing.T) {
	short := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23))
	long := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))
	for _, secrets := range [][]string{nil, {""}, {"whsec_"}, {published, ""}, {published + ","}, {published[6:]}, {"whsec_hunter2!"},
		{short}, {long}} {
		err := webhook.Verify(vector(), payload, secrets...)
		if !errors.Is(err, webhook.ErrSecret) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", secrets, err)
		}
	}
	if err := (&webhook.Verifier{}).Verify(vector(), payload); !errors.Is(err, webhook.ErrSecret) {
		t.Errorf("the zero Verifier: %v", err)
	}
}

func TestVerifyUsesToleranceAndClock(t *testing.T) {
	v := at(t, time.Hour, published)
	v.Tolerance = 2 * time.Hour
	if err := v.Verify(vector(), payload); err != nil {
		t.Error(err)
	}
	v.Tolerance = -1
	v.Now = nil
	if err := v.Verify(vector(), payload); err != nil {
		t.Errorf("without a check of the time: %v", err)
	}
	if err := webhook.Verify(vector(), payload, published); !errors.Is(err, webhook.ErrTimestamp) {
		t.Errorf("years later: %v", err)
	}
}

func TestVerifyAcceptsSign(t *testing.T) {
	h := http.Header{}
	if err := webhook.Sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(stamp, 0), payload, published); err != nil {
		t.Fatal(err)
	}
	if got, want := h.Get("Webhook-Signature"), vector().Get("webhook-signature"); got != want {
		t.Errorf("%s, want the published %s", got, want)
	}
	if err := webhook.Sign(h, "id", time.Now(), payload, other, published); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{other, published} {
		if err := webhook.Verify(h, payload, secret); err != nil {
			t.Error(err)
		}
	}
	if err := webhook.Sign(h, "id", time.Now(), payload); !errors.Is(err, webhook.ErrSecret) {
		t.Error(err)
	}
}

func TestPayloadReturnsSignedBytes(t *testing.T) {
	get := httptest.NewRequest(http.MethodGet, "/hook?shop=1&order=4711", nil)
	if b, err := webhook.Payload(get, 1); err != nil || string(b) != "shop=1&order=4711" {
		t.Errorf("of a GET: %q, %v", b, err)
	}
	post := func() *http.Request {
		return httptest.NewRequest(http.MethodPost, "/hook?shop=1", strings.NewReader("12345"))
	}
	if b, err := webhook.Payload(post(), 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	var long *http.MaxBytesError
	if _, err := webhook.Payload(post(), 4); !errors.As(err, &long) {
		t.Errorf("one byte too many: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("id", "1614265330", "v1,x v1,y", []byte("{}"))
	f.Fuzz(func(t *testing.T, id, stamp, signature string, body []byte) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature}}
		if err := webhook.Verify(h, body, published); err == nil {
			t.Errorf("%q %q %q was taken", id, stamp, signature)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	v, _ := webhook.New(published)
	v.Tolerance = -1
	h := vector()
	for b.Loop() {
		if err := v.Verify(h, payload); err != nil {
			b.Fatal(err)
		}
	}
}
