package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"notifier/internal/config"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// instance is a whole process within the test's.
type instance struct {
	*Process
	stop func()
}

// serveOn begins an instance on a server with these variables.
func serveOn(t *testing.T, srv *testkit.Redis, vars ...string) *instance {
	t.Helper()
	env := map[string]string{"NOTIFIER_REDIS_URL": srv.URL(), "NOTIFIER_LISTEN": "127.0.0.1:0", "NOTIFIER_NAMESPACE": srv.Namespace()}
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		env["NOTIFIER_"+name] = value
	}
	c, err := config.Load(envconfig.MapLookuper(env), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Config: c, Version: "test", Logger: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	i := &instance{Process: p}
	i.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(i.stop)
	<-p.Subscribed()
	return i
}

// shop is a receiver that counts running calls.
type shop struct {
	*httptest.Server
	mu        sync.Mutex
	now, most int
	at        map[string][]time.Time
	came      chan struct{}
}

func newShop(t *testing.T, takes time.Duration) *shop {
	s := &shop{at: map[string][]time.Time{}, came: make(chan struct{}, 10000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		s.now++
		s.most = max(s.most, s.now)
		key := r.Header.Get("Notifier-Key")
		s.at[key] = append(s.at[key], time.Now())
		s.mu.Unlock()
		time.Sleep(takes) // sleep: the duration of a call
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
		s.came <- struct{}{}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) await(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		testkit.Next(t, fmt.Sprintf("call %d of %d", i+1, n), s.came)
	}
}

// together waits until instances know each other.
func together(t *testing.T, all ...*instance) {
	t.Helper()
	for _, i := range all {
		testkit.Until(t, "all know each other", func() bool { s := i.Fleet().Stats(); return s.Alive == len(all) && s.Leaving == 0 })
	}
}

func (i *instance) schedule(t *testing.T, prefix, url string, n int) {
	t.Helper()
	var reqs []store.Request
	for k := range n {
		reqs = append(reqs, store.Request{Key: fmt.Sprintf("%s:n:%d", prefix, k), Content: notice.Content{URL: url, Body: []byte("{}")}})
	}
	for _, r := range i.ScheduleMany(t.Context(), reqs) {
		if r.Err != nil || !r.Created {
			t.Fatalf("schedule: %+v", r)
		}
	}
}

// TestSlotsHoldForAllInstances: three instances together never have more calls
// under way to a host than HOST_CONCURRENCY, with a backlog at it, though it has
// fewer slots than there are instances, and everything is delivered once.
func TestSlotsHoldForAllInstances(t *testing.T) {
	for _, target := range []string{"notice", "fixed"} {
		for _, slots := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(target, slots), func(t *testing.T) {
				srv, to := testkit.StartRedis(t), newShop(t, 5*time.Millisecond)
				vars := []string{"ROUTES=pay", "ROUTE_PAY_PREFIX=app1:pay", "ROUTE_PAY_TARGET=notice", "ROUTE_PAY_ALLOW=127.0.0.1",
					fmt.Sprint("ROUTE_PAY_HOST_CONCURRENCY=", slots)}
				url := to.URL
				if target == "fixed" {
					vars[2], vars[3], url = "ROUTE_PAY_TARGET="+to.URL, "INSTANCE=x", ""
				}
				all := []*instance{serveOn(t, srv, vars...), serveOn(t, srv, vars...), serveOn(t, srv, vars...)}
				together(t, all...)
				const n = 100
				all[0].schedule(t, "app1:pay", url, n)
				to.await(t, n)
				to.mu.Lock()
				defer to.mu.Unlock()
				if to.most > slots {
					t.Errorf("%d calls were under way at once; %d are allowed for all", to.most, slots)
				}
				for key, at := range to.at {
					if len(at) != 1 {
						t.Errorf("%s came %d times", key, len(at))
					}
				}
				if len(to.at) != n {
					t.Errorf("%d notices came, want %d", len(to.at), n)
				}
			})
		}
	}
}

// TestOpenBreakerIsKnownToAll: a host that hangs for one instance is tried by one.
func TestOpenBreakerIsKnownToAll(t *testing.T) {
	srv := testkit.StartRedis(t)
	vars := []string{"ROUTES=pay", "ROUTE_PAY_PREFIX=app1:pay", "ROUTE_PAY_TARGET=notice", "ROUTE_PAY_ALLOW=127.0.0.1"}
	all := []*instance{serveOn(t, srv, vars...), serveOn(t, srv, vars...), serveOn(t, srv, vars...)}
	together(t, all...)
	all[0].Broadcast("open app1:pay 127.0.0.1:9 0 5000 60000")
	for _, i := range all[1:] {
		testkit.Until(t, "the breaker is open there too", func() bool { return i.calls.Open(i.Process.o.Config.Routes[0], "127.0.0.1:9") })
	}
	all[1].Broadcast("closed app1:pay 127.0.0.1:9")
	testkit.Until(t, "it is closed again", func() bool { return !all[2].calls.Open(all[2].Process.o.Config.Routes[0], "127.0.0.1:9") })
}

// TestLimitsSmallerThanTheFleet: if RATE and HOST_CONCURRENCY suffice for one instance only, both
// go to the same instance. Otherwise no instance could make a call.
func TestLimitsSmallerThanTheFleet(t *testing.T) {
	for _, target := range []string{"notice", "fixed"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			srv, to := testkit.StartRedis(t), newShop(t, 5*time.Millisecond)
			vars := []string{"ROUTES=pay", "ROUTE_PAY_PREFIX=app1:pay", "ROUTE_PAY_TARGET=notice", "ROUTE_PAY_ALLOW=127.0.0.1",
				"ROUTE_PAY_HOST_CONCURRENCY=1", "ROUTE_PAY_RATE=1/s"}
			url := to.URL
			if target == "fixed" {
				vars[2], vars[3], url = "ROUTE_PAY_TARGET="+to.URL, "INSTANCE=x", ""
			}
			var all []*instance
			for range 5 {
				all = append(all, serveOn(t, srv, vars...))
			}
			together(t, all...)
			const n = 4
			all[0].schedule(t, "app1:pay", url, n)
			to.await(t, n)
			to.mu.Lock()
			defer to.mu.Unlock()
			if to.most > 1 || len(to.at) != n {
				t.Errorf("%d of %d notices came, %d at once", len(to.at), n, to.most)
			}
		})
	}
}
