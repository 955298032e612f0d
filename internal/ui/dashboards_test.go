package ui_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	"notifier/internal/engine/enginetest"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/ui"
)

// busySite is a service with four routes: attempts of each minute of the last hour in five bands of lateness,
// notices due in each minute of the next hour, dead letters, and 100 failing receivers.
func busySite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t}
	var err error
	mail := *routes(t).Prefix("app2")
	mail.Name, mail.Prefix = "mail", "app3"
	if s.table, err = route.NewTable(append(slices.Clone(routes(t).All()), &mail)); err != nil {
		t.Fatal(err)
	}
	s.engine = enginetest.New(t, s.table)

	work := map[string]fleet.Work{}
	h := &physician{}
	now := time.Now().UTC()
	for i, rt := range s.table.All() {
		spread := fleet.Spread{}
		for k := range 5 {
			spread[20+8*k] = int64(12_345 >> (3 * k))
		}
		work[rt.Prefix] = fleet.Work{Outcomes: map[notice.Outcome]int64{notice.OutcomeDelivered: 9000, notice.OutcomeDead: 4}, Late: spread}
		list := receivers.RouteHealth{Prefix: rt.Prefix, Counted: now}
		for k := range 25 {
			list.Receivers = append(list.Receivers, receivers.Health{Name: fmt.Sprintf("shop%d.merchants.example:443", 100*i+k),
				Since: now.Add(-time.Hour), LastSuccess: now.Add(-2 * time.Hour), Failures: 38, Status: 500 + k, Reason: "status_5xx", Waiting: 23,
				Next: now.Add(time.Minute)})
		}
		h.routes = append(h.routes, list)
		for k := range 60 {
			s.engine.Add(store.Found{State: notice.Scheduled, Notice: &notice.Notice{Key: fmt.Sprintf("%s%s:%d", rt.Prefix,
				strings.Repeat(":n", 2-strings.Count(rt.Prefix, ":")), k), Route: rt.Prefix,
				Made: notice.MadeAt(now), Due: now.Add(time.Duration(k)*time.Minute + 30*time.Second)}})
		}
	}
	s.health = h
	for m := range 60 {
		s.engine.SetMinutes(fleet.Minute{Instance: "a", At: now.Truncate(time.Minute).Add(-time.Duration(m) * time.Minute).UnixMilli(),
			Routes: work})
	}
	return s
}

func TestFirstPageOfBusyServiceIsSmall(t *testing.T) {
	s := busySite(t).as(ui.Visitor{})
	for _, language := range []string{"en", "zh-CN"} {
		a := s.in(language, "", "/ui/").is(http.StatusOK)
		if len(a.body) > 40<<10 {
			t.Errorf("%s: the first page has %d bytes, want at most 40 KB", language, len(a.body))
		}
		bars := 0
		a.each(func(n *html.Node) {
			if n.Data == "title" && n.Parent.Data == "rect" {
				bars++
			}
		})
		if bars < 118 || strings.Count(a.body, `class="matter bad"`) < 20 || strings.Count(a.body, `<article class="card`) != 4 {
			t.Errorf("%s: the page has %d tooltips of charts, %d urgent problems and %d routes", language, bars,
				strings.Count(a.body, `class="matter bad"`), strings.Count(a.body, `<article class="card`))
		}
	}
}

// The figures of all dashboards are read once, and rendered once for each language.
func TestFiftyDashboardsReadRedisOnce(t *testing.T) {
	s := newSite(t)
	h := &countingPhysician{}
	s.health = h
	s = s.as(ui.Visitor{})
	address, stop := s.serve()
	defer stop()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var open sync.WaitGroup
	defer open.Wait()
	defer leave()
	for i := range 50 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/ui/live/now", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(&http.Cookie{Name: "notifier_session", Value: s.cookie})
		want := "No problems found"
		if i%2 == 1 {
			req.AddCookie(&http.Cookie{Name: "notifier_language", Value: "zh-CN"})
			want = "未发现问题"
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		live := &stream{t, bufio.NewReader(res.Body), res.Body}
		live.until(want)
		open.Go(func() {
			_, _ = io.Copy(io.Discard, live.lines) // until the dashboard is closed
			_ = live.body.Close()
		})
	}

	const samples = 3
	from := h.await(t, h.calls.Load()+1)
	before, begun := s.commands(), time.Now()
	to := h.await(t, from+samples)
	// A sample is made every 2 s. On a busy machine it comes later, and the service's own commands go on meanwhile.
	most := int(max(to-from, int64(time.Since(begun)/(2*time.Second))) + 1)
	if n := s.commands() - before; n > most*50 {
		t.Errorf("%d samples took %d commands, want at most 50 each, and 50 for each 2 s", to-from, n)
	}
}

// countingPhysician counts the samples of the dashboards, each of which reads the health of receivers.
type countingPhysician struct {
	physician
	calls atomic.Int64
}

func (p *countingPhysician) Health(ctx context.Context) ([]receivers.RouteHealth, error) {
	p.calls.Add(1)
	return p.physician.Health(ctx)
}

// await waits for a number of calls.
func (p *countingPhysician) await(t *testing.T, n int64) int64 {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("%d samples", n), func() bool { return p.calls.Load() >= n })
	return p.calls.Load()
}

// commands returns how many commands Redis has executed.
func (s *site) commands() (n int) {
	s.t.Helper()
	stats := s.engine.Store().Wire().Redis.InfoMap(s.t.Context(), "stats").Val()["Stats"]
	if _, err := fmt.Sscan(stats["total_commands_processed"], &n); err != nil {
		s.t.Fatal(err)
	}
	return n
}
