package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/config"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// leaver is a Process with a shutdown delay of an hour that has been asked to stop.
type leaver struct {
	*Process
	logs   *logged.ObservedLogs
	hurry  chan struct{}
	signal context.CancelFunc
	done   chan error
}

func newLeaver(t *testing.T, change func(*config.Config)) *leaver {
	t.Helper()
	c := configOf(testkit.StartRedis(t).URL())
	c.ShutdownDelay = time.Hour
	change(c)
	core, logs := logged.New(zap.InfoLevel)
	l := &leaver{logs: logs, hurry: make(chan struct{}), done: make(chan error, 1)}
	var err error
	if l.Process, err = New(Options{Config: c, Version: "v1", Logger: zap.New(core), Hurry: l.hurry}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.signal = cancel
	go func() { l.done <- l.Run(ctx) }()
	<-l.Subscribed()
	return l
}

// get returns the status, the body and whether the response closes its connection.
func (l *leaver) get(t *testing.T, path string) (status int, body string, closes bool) {
	t.Helper()
	res, err := http.Get("http://" + l.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Close
}

func TestShutdownDelayKeepsDelivering(t *testing.T) {
	t.Parallel()
	l := newLeaver(t, func(*config.Config) {})
	defer http.DefaultClient.CloseIdleConnections()
	testkit.Until(t, "ready", func() bool { status, _, closes := l.get(t, "/readyz"); return status == 200 && !closes })
	l.signal()
	testkit.Until(t, "not ready", func() bool { status, _, _ := l.get(t, "/readyz"); return status == 503 })
	if _, body, closes := l.get(t, "/readyz"); !closes || !strings.Contains(body, `"ready":false`) ||
		!strings.Contains(body, "shutting down") {
		t.Errorf("closes %v: %s", closes, body)
	}
	if status, _, closes := l.get(t, "/healthz"); status != 200 || !closes {
		t.Errorf("/healthz: %d, closes %v", status, closes)
	}

	if r := l.ScheduleMany(t.Context(), []store.Request{{Key: "app1:a:b:1", Due: time.Now().Add(50 * time.Millisecond),
		Content: notice.Content{Body: []byte("{}")}}}); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
	testkit.Until(t, "a delivery during the delay", func() bool {
		_, body, _ := l.get(t, "/v1/notices/app1:a:b:1")
		return strings.Contains(body, `"state":"delivered"`)
	})
	if s := l.Fleet().Stats(); s.Leaving != 0 || s.Alive != 1 {
		t.Errorf("the fleet sees %+v during the delay", s)
	}

	if l.logs.FilterMessage("stopping").Len() != 0 {
		t.Error("it stops before the delay is over")
	}
	close(l.hurry)
	if err := <-l.done; err != nil {
		t.Error(err)
	}
}

func TestFailureEndsShutdownDelay(t *testing.T) {
	t.Parallel()
	l := newLeaver(t, func(*config.Config) {})
	l.signal()
	testkit.Until(t, "the delay", func() bool { return l.leave.Load() })
	_ = l.listen.Close() // the API fails
	if err := <-l.done; err == nil {
		t.Error("no error")
	}
}

func TestProfilesAreServedToLoopbackHosts(t *testing.T) {
	t.Parallel()
	l := newLeaver(t, func(c *config.Config) { c.PprofListen, c.ShutdownDelay = "127.0.0.1:0", 0 })
	get := func(path, host string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.PprofAddr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host, req.Close = host, true
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	if status, body := get("/debug/pprof/goroutine?debug=1", "localhost:1"); status != 200 || !strings.Contains(body, "goroutine profile:") {
		t.Errorf("%d: %.200s", status, body)
	}
	if status, _ := get("/debug/pprof/goroutine?debug=1", "rebound.example"); status != http.StatusForbidden {
		t.Errorf("another host: %d", status)
	}
	if status, _, _ := l.get(t, "/debug/pprof/"); status != 404 {
		t.Errorf("on the API's address: %d", status)
	}
	l.signal()
	if err := <-l.done; err != nil {
		t.Error(err)
	}
}
