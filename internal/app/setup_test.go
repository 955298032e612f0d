package app

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/config"
	"notifier/internal/doctor"
	"notifier/internal/route"
	"notifier/internal/testkit"
)

// served is a Process whose log can be read.
type served struct {
	*Process
	logs *logged.ObservedLogs
}

// configOf is a configuration with one route.
func configOf(url string) *config.Config {
	return &config.Config{Redis: config.Redis{URL: url, Mode: config.Standalone}, Namespace: "notifier", Shards: 1, Listen: "127.0.0.1:0",
		ConfigureRedis: true, Concurrency: 8, Grace: 50 * time.Millisecond, Retention: time.Hour, Retain: 1000, MaxBody: 1 << 10,
		ShutdownTimeout: 10 * time.Second, Routes: []*route.Route{testRoute("r", "app1")}}
}

// runProcess runs a Process that examines Redis every few ms.
func runProcess(t *testing.T, url string) *served {
	t.Helper()
	core, logs := logged.New(zap.InfoLevel)
	p, err := New(Options{Config: configOf(url), Version: "v1", Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	p.setup.every, p.setup.retry = 50*time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &served{p, logs}
}

// warnings are those on how Redis is set up: check, problem and remedy of each.
func (s *served) warnings() (list []string) {
	for _, l := range s.logs.FilterMessage("the Redis configuration has a problem").All() {
		m := l.ContextMap()
		list = append(list, fmt.Sprintf("%s %v: %v → %v", l.Level, m["check"], m["problem"], m["remedy"]))
	}
	return list
}

func (s *served) page() string {
	w := httptest.NewRecorder()
	s.setup.metrics.Page().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func (s *served) subscribed(t *testing.T) {
	t.Helper()
	testkit.Next(t, "subscribed", s.Subscribed())
}

func (s *served) tells(t *testing.T, line string) {
	t.Helper()
	testkit.Until(t, line, func() bool { return strings.Contains(s.page(), "\n"+line+"\n") })
}

// Regression test: serve logged nothing about a Redis that evicts or loses notices; only doctor
// reported it.
func TestServeTellsWhatDoctorCallsAnError(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig("maxmemory 100mb", "maxmemory-policy allkeys-lru", "appendonly no", `save ""`))
	s := runProcess(t, srv.URL())
	testkit.Until(t, "two warnings", func() bool { return len(s.warnings()) == 2 })
	all := strings.Join(s.warnings(), "\n")
	for _, want := range []string{"warn memory: maxmemory-policy is allkeys-lru", "→ maxmemory-policy noeviction in redis.conf",
		"warn persistence: neither",
		"→ appendonly yes"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in:\n%s", want, all)
		}
	}
	s.tells(t, `notifier_redis_misconfigured{check="memory"} 1`)
	s.tells(t, `notifier_redis_misconfigured{check="persistence"} 1`)
	s.tells(t, `notifier_redis_misconfigured{check="rights"} 0`)

	// A problem of the same server is reported once, that of another server again.
	s.subscribed(t)
	srv.Restart()
	testkit.Until(t, "two more warnings of another server", func() bool { return len(s.warnings()) == 4 })

	if err := srv.Client().ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	s.tells(t, `notifier_redis_misconfigured{check="memory"} 0`)
	testkit.Until(t, "the end of it", func() bool {
		return s.logs.FilterMessage("a problem of the Redis configuration is fixed").Len() == 1
	})
	if n := len(s.warnings()); n != 4 {
		t.Errorf("%d warnings:\n%s", n, strings.Join(s.warnings(), "\n"))
	}
}

// A managed Redis forbids CONFIG and INFO: that is not an error, and delays nothing.
func TestServeStartsWhereCONFIGAndINFOAreForbidden(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig("maxmemory 100mb", "maxmemory-policy allkeys-lru"))
	acl := []any{"ACL", "SETUSER", "managed", "on", ">secret", "~*", "&*", "+@all", "-config", "-info", "-acl"}
	if err := srv.Client().Do(t.Context(), acl...).Err(); err != nil {
		t.Fatal(err)
	}
	s := runProcess(t, strings.Replace(srv.URL(), "redis://", "redis://managed:secret@", 1))
	s.subscribed(t)
	s.tells(t, `notifier_redis_misconfigured{check="memory"} 0`)
	if w := s.warnings(); len(w) > 0 || !s.Ready(t.Context()).Ready {
		t.Errorf("%v, %+v", w, s.Ready(t.Context()))
	}
}

// A service that lacks a right it needs refuses to start, names the rules to add, and
// has written nothing.
func TestServeRefusesToStartWithoutRights(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig("appendonly yes", "maxmemory 100mb"))
	for rules, add := range map[string]string{
		"~* &* +@all -zadd -hgetall -evalsha": "+evalsha +zadd +hgetall",
		"~notifier:* &* +@all":                "~app1:*",
		"~app1:* &* +@all":                    "~notifier:*",
		"~* &notifier:* +@all":                "&__keyevent@0__:expired",
	} {
		if err := srv.Client().ACLSetUser(t.Context(), "weak", append([]string{"reset", "on", ">secret"},
			strings.Fields(rules)...)...).Err(); err != nil {
			t.Fatal(err)
		}
		p, err := New(Options{Config: configOf(strings.Replace(srv.URL(), "redis://", "redis://weak:secret@", 1)), Version: "v1",
			Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Run(t.Context())
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "ACL SETUSER weak "+add) {
			t.Errorf("%s: %v, want %s", rules, err, add)
		}
		if n := srv.Client().DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("%s: %d keys were written", rules, n)
		}
	}
}

// At the start too, and its end.
func TestAStartWithoutRedisIsToldAgain(t *testing.T) {
	srv := testkit.StartRedis(t)
	srv.Kill()
	s := runProcess(t, srv.URL())
	testkit.Until(t, "the outage", func() bool { return s.logs.FilterMessageSnippet("Redis is unavailable").Len() == 1 })
	srv.Restart()
	testkit.Until(t, "its end", func() bool { return s.logs.FilterMessage("Redis is available again").Len() == 1 })
	s.subscribed(t)
}

// examinations is a redisExaminer that counts.
type examinations struct{ n atomic.Int64 }

func (e *examinations) Examine(context.Context) ([]doctor.Finding, error) {
	e.n.Add(1)
	return nil, nil
}

func (e *examinations) Servers(context.Context) (string, error) { return "one", nil }

// Regression test: notifier_redis_misconfigured was 0 for up to ten minutes after Redis had reached maxmemory.
func TestFullRedisIsExamined(t *testing.T) {
	var e examinations
	w := newSetupWatch(setupWatch{redis: &e, logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	testkit.Until(t, "the first examination", func() bool { return e.n.Load() == 1 })
	w.MemoryChanged()
	testkit.Until(t, "another one", func() bool { return e.n.Load() == 2 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
