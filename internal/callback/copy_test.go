package callback

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/tracing"
)

func copyOf(r *route.Route, c notice.Content) *tracing.Copy {
	n := &notice.Notice{Key: "app1:orders:paid:1", Due: time.Unix(1_800_000_000, 0), Content: c}
	return New(Options{UserAgent: "notifier/test"}).Copy(r, n)
}

// header is the value of a header of a copy, and whether it is there.
func header(c *tracing.Copy, name string) (string, bool) {
	i := slices.IndexFunc(c.Headers, func(h notice.Header) bool { return h.Name == name })
	if i < 0 {
		return "", false
	}
	return c.Headers[i].Value, true
}

func TestCopyLeavesSecretsOut(t *testing.T) {
	t.Parallel()
	r := &route.Route{Name: "orders", Prefix: "app1:orders", Target: route.Target{Kind: route.KindNotice},
		Headers: []notice.Header{{Name: "X-Of-Route", Value: "hunter2"}}, Secrets: []sign.Secret{sign.SecretOf([]byte("hunter2 hunter2 hunter2 " +
			"hunter2"))}}
	c := copyOf(r, notice.Content{URL: "https://me:hunter2@shop.example/hook?token=hunter2&a=1", Body: []byte(`{"a":1}`),
		Headers: []notice.Header{{Name: "X-Mine", Value: "mine"}, {Name: "Authorization", Value: "Bearer hunter2"},
			{Name: "X-Api-Key", Value: "hunter2"}}})
	text := c.URL
	for _, h := range c.Headers {
		text += " " + h.Name + ": " + h.Value
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("a secret is in %s", text)
	}
	for _, name := range []string{"x-of-route", "authorization", "x-api-key", "webhook-signature", "webhook-timestamp"} {
		if v, ok := header(c, name); ok {
			t.Errorf("the copy has the header %s: %s", name, v)
		}
	}
	for name, want := range map[string]string{"x-mine": "mine", "content-type": "application/json", "notifier-attempt": "1",
		"notifier-key": "app1:orders:paid:1", "user-agent": "notifier/test", "webhook-id": c.ID} {
		if v, _ := header(c, name); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
	if !c.Standard || c.Method != http.MethodPost || string(c.Body) != `{"a":1}` || c.Cut || c.Size != 7 {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(c.URL, "shop.example/hook") || !strings.Contains(c.URL, "a=1") {
		t.Errorf("url %s", c.URL)
	}
}

func TestCopyOfAGetHasItsQuery(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("https://shop.example/hook?x=1")
	if err != nil {
		t.Fatal(err)
	}
	r := &route.Route{Name: "orders", Target: route.Target{Kind: route.KindFixed, URL: u}, Method: http.MethodGet}
	c := copyOf(r, notice.Content{Body: []byte(`{"b":2,"a":1}`)})
	if c.Query != "a=1&b=2" || c.Body != nil || c.URL != "https://shop.example/hook?x=1" || c.Standard {
		t.Errorf("%+v", c)
	}
	if v, ok := header(c, "content-type"); ok {
		t.Errorf("content-type %s", v)
	}
	long := copyOf(r, notice.Content{Body: []byte(`{"a":"` + strings.Repeat("x", tracing.MaxBody) + `"}`)})
	if !long.Cut || len(long.Query) != tracing.MaxBody {
		t.Errorf("cut %t, %d bytes", long.Cut, len(long.Query))
	}
}

func TestCopyOfALogRouteIsTheRequest(t *testing.T) {
	t.Parallel()
	r := &route.Route{Name: "log", Target: route.Target{Kind: route.KindLog}, Sign: []sign.Scheme{sign.Stripe, sign.GitHub}}
	c := copyOf(r, notice.Content{Body: make([]byte, tracing.MaxBody+5), ContentType: "text/plain"})
	if c.URL != "" || c.Method != http.MethodPost || c.Schemes != "stripe, github" || c.Standard {
		t.Errorf("%+v", c)
	}
	if !c.Cut || len(c.Body) != tracing.MaxBody || c.Size != tracing.MaxBody+5 {
		t.Errorf("cut %t, %d of %d bytes", c.Cut, len(c.Body), c.Size)
	}
}
