package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/doctor"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/receivers"
)

// TestProblemsAwaitsTheFirstChecks makes the first call after a start before the checks of doctor have reported.
func TestProblemsAwaitsTheFirstChecks(t *testing.T) {
	t.Parallel()
	begun, report := make(chan struct{}), make(chan struct{})
	var s *problems.Sampler
	b := newBench(t, func(o *api.Options) {
		s = problems.NewSampler(problems.SamplerOptions{Engine: o.Engine, Routes: o.Routes, Health: o.Engine, Now: time.Now,
			Examine: func(context.Context) (*doctor.Report, error) {
				close(begun)
				<-report
				return &doctor.Report{Findings: []doctor.Finding{{Check: "memory", Severity: doctor.Warning, Message: "maxmemory is low"}}}, nil
			}})
		o.Sampler = s
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()

	first := make(chan string, 1)
	go func() { first <- b.do("GET", "/v1/problems", "").raw }()
	<-begun
	close(report)
	if got := <-first; !strings.Contains(got, "maxmemory is low") || strings.Contains(got, `"unread"`) {
		t.Errorf("the first call answers %s", got)
	}
}

// TestProblemsNamesMissingParts checks that a call that waited in vain names what it lacks.
func TestProblemsNamesMissingParts(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, func(o *api.Options) {
		o.Sampler = problems.NewSampler(problems.SamplerOptions{Engine: o.Engine, Routes: o.Routes, Health: o.Engine, Now: time.Now,
			Examine: func(context.Context) (*doctor.Report, error) { return nil, nil }})
	})
	if a := b.as("token-of-one").do("GET", "/v1/problems", "").is(200); strings.Contains(a.raw, `"unread"`) {
		t.Errorf("a client that sees no checks: %s", a.raw)
	}

	b.as("token-of-all").do("GET", "/v1/problems", "").is(200).says(`"unread":true`, `"missing":["checks"]`) // nothing runs them
}

// TestProblems checks the problems of a service, and which of them a client with a prefix sees.
func TestProblems(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	all, two := b.as("token-of-all"), b.as("token-of-two")
	for _, key := range []string{"app1:jobs:t:1", "app1:jobs:t:2"} {
		all.do("POST", "/v1/notices", `{"key":"`+key+`"}`).is(201)
		b.engine.Move(key, notice.Dead, notice.ReasonGone)
	}

	if err := b.engine.PauseReceiver(t.Context(), "all", receivers.Receiver{Host: "shop.example", Prefix: "app1"}, time.Time{},
		0); err != nil {
		t.Fatal(err)
	}

	b.engine.SetReady(fleet.Readiness{Ready: true, Degraded: []fleet.Condition{{Reason: "no subscription"}}})
	const full = "Redis is full (maxmemory): new notices are refused since 03:04:05 UTC"
	b.engine.Tell(fleet.Figures{}, fleet.Instance{ID: "b", About: fleet.About{Label: "other-1"}, State: fleet.Alive,
		Figures: fleet.Figures{Full: full}.Encode()})
	got := all.do("GET", "/v1/problems", "").is(200).says(
		`{"kind":"redis_full","severity":"error","title":"Redis is full: new notices are refused"`, full, `"examples":["other-1"]`,
		`{"kind":"dead","severity":"error","title":"jobs: 2 dead letters in the last hour, gone","details":"since `,
		`"route":"jobs","prefix":"app1:jobs","reason":"gone","count":2,"since":"20`,
		`"command":"notifier redrive --route jobs --reason gone --rate 100/s"`,
		`{"kind":"degraded","severity":"warning","title":"This instance is degraded","details":"no subscription"`,
		`{"kind":"receivers_paused","severity":"warning","title":"1 receiver paused"`, `"examples":["shop.example"]`)
	if i, k := strings.Index(got.raw, `"dead"`), strings.Index(got.raw, `"redis_full"`); i < k {
		t.Errorf("Redis full is not first: %s", got.raw)
	}

	if strings.Contains(got.raw, `"page"`) {
		t.Errorf("pages without a dashboard: %s", got.raw)
	}

	if a := all.do("GET", "/v1/problems?route=jobs", "").is(200); strings.Contains(a.raw, "redis_full") || !strings.Contains(a.raw, `"dead"`) {
		t.Errorf("of a route: %s", a.raw)
	}

	if a := two.do("GET", "/v1/problems", "").is(200); !strings.Contains(a.raw, `"items":[]`) {
		t.Errorf("a client with another prefix sees %s", a.raw)
	}

	two.do("GET", "/v1/problems?route=jobs", "").is(404)
}
