package ui_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/ui"
)

// stream is a live page that is open.
type stream struct {
	t     testing.TB
	lines *bufio.Reader
	body  io.Closer
}

// serve runs the pages behind a server; its end ends their streams. The server's limit on the arrival of requests is far
// below the interval of samples, so that a test that reads a change fails if the limit ends streams.
func (s *site) serve() (address string, stop func()) {
	s.t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = api.Server(s.pages, "")
	srv.Config.ReadTimeout = 50 * time.Millisecond
	srv.Start()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.pages.Run(ctx) }()
	return srv.URL, func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		srv.Close() // which waits for the streams
	}
}

func (s *site) watch(address, page string) *stream {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, address+"/ui/live/"+page, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.AddCookie(&http.Cookie{Name: "notifier_session", Value: s.cookie})
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("%s %s", res.Status, res.Header.Get("Content-Type"))
	}
	return &stream{s.t, bufio.NewReader(res.Body), res.Body}
}

// until reads until something is said, and returns all that came.
func (st *stream) until(want string) string {
	st.t.Helper()
	var all strings.Builder
	for {
		line, err := st.lines.ReadString('\n')
		if all.WriteString(line); err != nil {
			st.t.Fatalf("the stream ends (%v) before %q: %s", err, want, all.String())
		}
		if strings.Contains(line, want) {
			return all.String()
		}
	}
}

func TestLivePagesSendChangesWithinTheScope(t *testing.T) {
	s := newSite(t)
	s.keep("app2:a:b:theirs", notice.Content{URL: "https://theirs.example/"}, time.Hour)
	s.engine.Tell(fleet.Figures{Routes: map[string]fleet.RouteFigures{"app2": {InFlight: 7733, Work: fleet.Work{}}},
		Hosts: []fleet.HostFigures{{Prefix: "app2", Host: "theirs.example:443", Calls: 4242, Breaker: "open"}}})
	me := s.as(ui.Visitor{Prefix: "app1"})
	address, stop := me.serve()
	defer stop()
	first := me.watch(address, "now")
	defer func() { _ = first.body.Close() }()
	seen := first.until(`id="service"`)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	seen += first.until("<strong>1</strong> pending")
	second := me.watch(address, "receivers")
	defer func() { _ = second.body.Close() }()
	seen += second.until(`id="rates"`)
	for _, secret := range []string{"app2", "theirs", "7,733", "4,242", ui.CSRFPlaceholder()} {
		if strings.Contains(seen, secret) {
			t.Errorf("a client of app1 gets %q: %s", secret, seen)
		}
	}
	if !strings.Contains(seen, "event: block\n") {
		t.Errorf("no events: %s", seen)
	}
	if a := me.get("/ui/live/nothing"); a.StatusCode != 404 {
		t.Errorf("a live page that there is not: %d", a.StatusCode)
	}
}

// Each visitor gets the own CSRF token, although blocks are rendered once per scope.
func TestLivePagesCarryTheVisitorsToken(t *testing.T) {
	s := newSite(t)
	if err := s.engine.Pause(t.Context(), "app1:orders"); err != nil {
		t.Fatal(err)
	}
	address, stop := s.serve()
	defer stop()
	live := s.watch(address, "now")
	defer func() { _ = live.body.Close() }()
	if seen := live.until("Resume orders"); !strings.Contains(seen, `name="csrf" value="`+s.csrf+`"`) {
		t.Errorf("the button that resumes has another token: %s", seen)
	}
}

func TestLivePagesEndWithTheService(t *testing.T) {
	s := newSite(t)
	address, stop := s.serve()
	live := s.watch(address, "now")
	live.until(`id="service"`)
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, live.lines)
		ended <- err
	}()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
	_ = live.body.Close()
}

// The page of a notice shows its changes to the visitors who may see the notice.
func TestNoticePageIsLive(t *testing.T) {
	s := newSite(t)
	const key = "app1:orders:paid:1"
	s.keep(key, notice.Content{URL: "https://shop.example/", Body: []byte(`"not again"`)}, time.Hour)
	me := s.as(ui.Visitor{Prefix: "app1"})
	address, stop := me.serve()
	defer stop()
	a := me.get("/ui/notices/" + key).is(200).says("Reload")
	if !strings.Contains(a.body, `data-live="/ui/live/notices/`+key+`"`) {
		t.Errorf("the page names no stream: %s", a.body)
	}
	live := me.watch(address, "notices/"+key)
	defer func() { _ = live.body.Close() }()
	first := live.until(`id="facts"`)
	for _, want := range []string{`id="headline"`, "Due in", `id="doing"`, "Cancel the notice", `value="` + me.csrf + `"`, `id="way"`, "Attempt 1"} {
		if !strings.Contains(first, want) {
			t.Errorf("the stream begins without %q: %s", want, first)
		}
	}
	s.engine.Answers("thanks a lot")
	s.engine.Move(key, notice.Delivered, "")
	next := live.until("thanks a lot")
	next += live.until(`id="facts"`)
	if !strings.Contains(next, "by attempt 1.") || strings.Contains(next, "Cancel the notice") || strings.Contains(next, "not again") {
		t.Errorf("after its delivery the stream says %s", next)
	}
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/live/notices/" + key).is(404)
	me.get("/ui/live/notices/app1:orders:paid:none").is(404)
}

// A notice's text that equals the placeholder would become the visitor's token.
func TestCSRFPlaceholderIsRandom(t *testing.T) {
	if p := ui.CSRFPlaceholder(); len(p) < 26 || p == "csrf-token-of-the-visitor" {
		t.Errorf("%q can be guessed", p)
	}
}
