package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/client/webhook"
	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
	"notifier/internal/tracing"
)

// tapWait bounds waits for what takes milliseconds on an idle machine.
const tapWait = 30 * time.Second

// tapped is an API on a server of its own, with the server's limits on the time of a request.
type tapped struct {
	http.Handler
	engine *enginetest.Engine
	url    string
}

// opening is an engine that calls a function before it opens a tap.
type opening struct {
	*enginetest.Engine
	before func()
}

func (o *opening) OpenTap(ctx context.Context, client, prefix string) (*tracing.Tap, error) {
	if o.before != nil {
		o.before()
	}
	return o.Engine.OpenTap(ctx, client, prefix)
}

// The data of the stream's events.
type (
	tapOpened struct {
		Prefix, Key string
		Masked      bool
	}
	tapReady struct{ Instances, Of int }
	tapEnd   struct{ Reason string }
)

const eventStream = "text/event-stream"

func newTapped(t *testing.T, change func(*api.Options)) *tapped {
	t.Helper()
	table, err := route.NewTable([]*route.Route{{Name: "orders", Prefix: "app1", Target: route.Target{Kind: route.KindLog}}})
	if err != nil {
		t.Fatal(err)
	}
	x := &tapped{engine: enginetest.New(t, table)}
	o := api.Options{Engine: x.engine, Routes: table, Clients: []auth.Client{
		{Name: "boss", Token: "token-of-boss", Role: auth.Admin}, {Name: "ops", Token: "token-of-ops", Prefix: "app1", Role: auth.Operate},
		{Name: "shop", Token: "token-of-shop", Role: auth.Produce}}}
	if change != nil {
		change(&o)
	}
	x.Handler = api.New(o)
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = api.Server(x.Handler, "")
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
	srv.Start()
	t.Cleanup(srv.Close)
	x.url = srv.URL
	return x
}

// sse is a stream of events.
type sse struct {
	t     *testing.T
	res   *http.Response
	lines *bufio.Scanner
	end   context.CancelFunc
}

// open opens a stream as a client.
func (x *tapped) open(t *testing.T, client, query string) *sse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*tapWait)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.url+"/v1/tap"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer token-of-"+client)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	s := &sse{t, res, bufio.NewScanner(res.Body), cancel}
	s.lines.Buffer(nil, 1<<20)
	t.Cleanup(s.close)
	return s
}

func (s *sse) close() {
	s.end()
	_ = s.res.Body.Close()
}

// next reads the next event of that name into out, and skips others.
func (s *sse) next(name string, out any) {
	s.t.Helper()
	event := ""
	for s.lines.Scan() {
		field, data, _ := strings.Cut(s.lines.Text(), ": ")
		if field == "event" {
			event = data
		}
		if field == "data" && event == name {
			if err := json.Unmarshal([]byte(data), out); err != nil {
				s.t.Fatal(err)
			}
			return
		}
	}
	s.t.Fatalf("no event %s: %v", name, s.lines.Err())
}

func copied(key string) *tracing.Copy {
	c := &tracing.Copy{Key: key, Route: "orders", ID: "msg_1", Attempt: 1, Target: route.KindFixed, Method: http.MethodPost, Standard: true,
		Headers: []notice.Header{{Name: "webhook-id", Value: "msg_1"}}, Outcome: notice.OutcomeDelivered, Status: 200}
	c.SetBody([]byte(`{"card":"4111"}`))
	return c
}

func TestTapStreamsCopies(t *testing.T) {
	t.Parallel()
	x := newTapped(t, nil)
	s := x.open(t, "ops", "")
	if s.res.StatusCode != http.StatusOK || s.res.Header.Get("Content-Type") != eventStream {
		t.Fatalf("%d %s", s.res.StatusCode, s.res.Header.Get("Content-Type"))
	}
	var opened tapOpened
	s.next("open", &opened)
	if opened.Prefix != "app1" || opened.Key == "" || opened.Masked {
		t.Errorf("%+v", opened)
	}
	var ready tapReady
	s.next("ready", &ready)
	if ready.Instances != 1 || ready.Of != 1 {
		t.Errorf("%+v", ready)
	}

	time.Sleep(400 * time.Millisecond) // sleep: longer than the server's limits on a request
	if x.engine.Copied(copied("app2:a:b:c")) || !x.engine.Copied(copied("app1:a:b:c")) {
		t.Error("the prefix of the client does not bound its tap")
	}
	var got tracing.ShownCopy
	s.next("copy", &got)
	h := http.Header{}
	for _, v := range got.Headers {
		h.Set(v.Name, v.Value)
	}
	if err := webhook.Verify(h, []byte(got.Body), opened.Key); err != nil || got.Key != "app1:a:b:c" || got.Status != 200 {
		t.Errorf("%v: %+v", err, got)
	}

	entries, err := x.engine.Audited(t.Context(), audit.Range{}, 10)
	if err != nil || len(entries) != 1 || entries[0].Action != audit.Tap || entries[0].Prefix != "app1" {
		t.Errorf("audit: %+v, %v", entries, err)
	}
}

func TestTapNeedsItsRights(t *testing.T) {
	t.Parallel()
	x := newTapped(t, nil)
	for _, c := range []struct {
		client, query string
		want          int
	}{
		{"shop", "", http.StatusForbidden},
		{"nobody", "", http.StatusUnauthorized},
		{"ops", "?prefix=app2", http.StatusNotFound},
		{"ops", "?prefix=app1:", http.StatusOK},
		{"ops", "?prefix=a%20b", http.StatusUnprocessableEntity},
		{"ops", "?other=1", http.StatusUnprocessableEntity},
		{"boss", "?prefix=app2:x", http.StatusOK},
	} {
		s := x.open(t, c.client, c.query)
		if s.res.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d", c.client, c.query, s.res.StatusCode, c.want)
		}
		s.close()
	}
	req := httptest.NewRequest(http.MethodHead, "/v1/tap", nil)
	req.Header.Set("Authorization", "Bearer token-of-ops")
	w := httptest.NewRecorder()
	x.ServeHTTP(w, req)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != eventStream {
		t.Errorf("HEAD: %d %v", w.Code, w.Header())
	}
}

func TestTapsOfAClientAreLimited(t *testing.T) {
	t.Parallel()
	x := newTapped(t, nil)
	var list []*sse
	for range tracing.MaxOfClient {
		s := x.open(t, "ops", "")
		s.next("open", &tapOpened{})
		list = append(list, s)
	}
	if s := x.open(t, "ops", ""); s.res.StatusCode != http.StatusTooManyRequests || s.res.Header.Get("Retry-After") == "" {
		t.Errorf("%d", s.res.StatusCode)
	}
	list[0].close()
	testkit.Until(t, "a tap that was closed leaves its place", func() bool {
		s := x.open(t, "ops", "")
		if s.res.StatusCode == http.StatusOK {
			return true
		}
		s.close()
		return false
	})
}

// A client that loses its right loses its stream at the next check.
func TestTapEndsWithTheRight(t *testing.T) {
	t.Parallel()
	for name, after := range map[string][]auth.Client{
		"token":  {{Name: "boss", Token: "token-of-boss", Role: auth.Admin}},
		"role":   {{Name: "ops", Token: "token-of-ops", Prefix: "app1", Role: auth.Produce}},
		"prefix": {{Name: "ops", Token: "token-of-ops", Prefix: "app1:other", Role: auth.Operate}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var engine *opening
			x := newTapped(t, func(o *api.Options) {
				engine = &opening{Engine: o.Engine.(*enginetest.Engine)}
				o.Engine = engine
			})
			api.SetTapTimes(x.Handler, 0, 0, 20*time.Millisecond)
			engine.before = func() { api.SetClients(x.Handler, after) } // the right was checked before
			s := x.open(t, "ops", "")
			var end tapEnd
			s.next("end", &end)
			if end.Reason != "the client may not read this tap any more" || s.lines.Scan() && s.lines.Text() != "" {
				t.Errorf("%+v, %q", end, s.lines.Text())
			}
		})
	}
}

// A reader that does not read ends its stream, and holds up no other one.
func TestTapEndsWithAReaderThatDoesNotRead(t *testing.T) {
	t.Parallel()
	x := newTapped(t, nil)
	api.SetTapTimes(x.Handler, 100*time.Millisecond, 0, 0)
	stuck, other := x.open(t, "ops", ""), x.open(t, "boss", "")
	stuck.next("ready", &tapReady{})
	other.next("ready", &tapReady{})

	big := copied("app1:a:b:c")
	big.SetBody([]byte(strings.Repeat("x", tracing.MaxBody)))
	testkit.Until(t, "the stream of the reader that does not read ends", func() bool {
		if x.engine.Copied(big) {
			other.next("copy", &tracing.ShownCopy{})
		}
		return x.engine.Taps() < 2
	})
}

func TestTapIsMaskedAsThePagesAre(t *testing.T) {
	t.Parallel()
	rules, err := mask.New(false, "$.card")
	if err != nil {
		t.Fatal(err)
	}
	x := newTapped(t, func(o *api.Options) { o.Mask = rules })
	s := x.open(t, "boss", "")
	var opened tapOpened
	s.next("open", &opened)
	s.next("ready", &tapReady{})
	x.engine.Copied(copied("app1:a:b:c"))
	var got tracing.ShownCopy
	s.next("copy", &got)
	if opened.Key != "" || !opened.Masked || got.Signed || strings.Contains(got.Body, "4111") {
		t.Errorf("%+v, %+v", opened, got)
	}
}

func TestTapCommentsWhileNothingHappens(t *testing.T) {
	t.Parallel()
	x := newTapped(t, nil)
	api.SetTapTimes(x.Handler, 0, 10*time.Millisecond, 0)
	s := x.open(t, "boss", "")
	for s.lines.Scan() {
		if strings.HasPrefix(s.lines.Text(), ":") {
			return
		}
	}
	t.Errorf("no comment: %v", s.lines.Err())
}
