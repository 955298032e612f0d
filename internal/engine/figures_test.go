package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"notifier/internal/embedded"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

type taken struct{}

func (taken) Handle(context.Context, *route.Route, *notice.Notice) notice.Result {
	return notice.DeliveredResult(200)
}

// oneHost is a host of app1 without limits.
type oneHost string

func (oneHost) Slots(r *route.Route) int      { return r.Slots() }
func (oneHost) MaxInstances(*route.Route) int { return 0 }
func (oneHost) Waiting(*route.Route) int      { return 0 }
func (h oneHost) Figures() []fleet.HostFigures {
	return []fleet.HostFigures{{Prefix: "app1", Host: string(h)}}
}

// Each of two instances does some of the work, and returns the figures of both.
func TestFiguresOfAllInstances(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	told := func(o *Options) {
		o.Hosts = oneHost(o.Instance)
	}
	one := start(t, srv, taken{}, told, testRoute("orders", "app1"))
	two := start(t, srv, taken{}, told, testRoute("orders", "app1"))
	const n = 40
	var rs []store.Request
	for i := range n {
		rs = append(rs, store.Request{Key: fmt.Sprint("app1:a:b:", i), Delay: 20 * time.Millisecond})
	}
	for _, r := range one.ScheduleMany(t.Context(), rs) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, w := range []*world{one, two} {
		eventually(t, "both instances return the figures of all attempts", func() bool {
			list, err := w.Instances(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done, late, hosts := int64(0), int64(0), 0
			for _, i := range list {
				f, _ := i.ReadFigures()
				done, late, hosts = done+f.Routes["app1"].Attempts(), late+f.Routes["app1"].Late.Count(), hosts+len(f.Hosts)
			}
			minutes, _, err := w.Minutes(t.Context(), "", time.Now().Add(-time.Hour)) // a minute may end in between
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range minutes {
				done, late = done+m.Routes["app1"].Attempts(), late+m.Routes["app1"].Late.Count()
			}
			return done == n && late == n && hosts == 2
		})
	}
	one.publishMinute(t.Context())
	two.publishMinute(t.Context())
	one.publishMinute(t.Context()) // nothing since
	minutes, last, err := two.Minutes(t.Context(), "", time.Now().Add(-time.Hour))
	done := int64(0)
	for _, m := range minutes {
		done += m.Routes["app1"].Attempts()
	}
	if err != nil || done != n || last == "" {
		t.Errorf("%d in %d minutes, the last %q, %v", done, len(minutes), last, err)
	}
	if more, again, err := two.Minutes(t.Context(), last, time.Time{}); err != nil || len(more) != 0 || again != last {
		t.Errorf("behind the last: %v, %q, %v", more, again, err)
	}
}

// waits is a handler that postpones all notices.
type waits struct{}

func (waits) Handle(context.Context, *route.Route, *notice.Notice) notice.Result {
	r := notice.DeferredResult(notice.ReasonBreaker, time.Hour, "")
	r.Host = "h:443"
	return r
}

// Each of two instances reports all due notices that wait at both, and those of a paused route.
func TestWaitingNoticesOfAllInstances(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	told := func(o *Options) {
		o.Hosts = oneHost("h:443")
	}
	both := []*world{start(t, srv, waits{}, told, testRoute("orders", "app1"), testRoute("other", "app2"))}
	both = append(both, start(t, srv, waits{}, told, testRoute("orders", "app1"), testRoute("other", "app2")))
	for _, w := range both {
		eventually(t, "both live", func() bool { return w.Fleet().View().Alive() == 2 })
	}
	for _, w := range both {
		w.pauseRoute(t, "app2")
	}
	const n = 40
	var rs []store.Request
	for i := range n {
		rs = append(rs, store.Request{Key: fmt.Sprint("app1:a:b:", i), Delay: 20 * time.Millisecond})
	}
	for i := range 3 {
		rs = append(rs, store.Request{Key: fmt.Sprint("app2:a:b:", i)})
	}
	for _, r := range both[0].ScheduleMany(t.Context(), rs) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, w := range both {
		eventually(t, "the gauges count all that wait", func() bool {
			g, err := w.Gauges(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			by := map[string]int64{}
			for _, r := range g.Routes {
				by[r.Route] = r.Waiting
			}
			return by["orders"] == n && by["other"] == 3
		})
	}
	list, err := both[1].Instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting, shares := 0, 0
	for _, i := range list {
		f, _ := i.ReadFigures()
		for _, h := range f.Hosts {
			waiting += h.Waiting
		}
		if f.Routes["app1"].Waiting[notice.HeldBreaker] > 0 {
			shares++
		}
	}
	// Both publish some, unless one was so busy that the other claimed all.
	if waiting != n || shares < 1 {
		t.Errorf("%d wait for the host, published by %d instances: %+v", waiting, shares, list)
	}
}

// Not every Redis has all that the figures need; the one of the demo must.
func TestTheEmulationKeepsFigures(t *testing.T) {
	t.Parallel()
	srv, err := embedded.StartEmulated()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	conn, err := wire.Open(wire.Address{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := store.New(store.Options{Client: conn.Commander, Space: keys.Space{Namespace: "notifier", Shards: 1},
		Prefixes: []string{"app1"}, Retention: time.Hour, Retain: 10})
	from := time.Now().Add(time.Minute)
	if r, err := s.Schedule(t.Context(), keys.Partition{Prefix: "app1"}, []store.Request{{Key: "app1:a:b:c",
		Due: from.Add(90 * time.Second)}}); err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	if got, _, err := s.Forecast(t.Context(), "app1", from, time.Minute, 3); err != nil || fmt.Sprint(got) != "[0 1 0]" {
		t.Errorf("%v, %v", got, err)
	}
	if err := fleet.NewStore(s.Layout).AddMinute(t.Context(), "text", time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, err := fleet.NewStore(s.Layout).Minutes(t.Context(), "", time.Now().Add(-time.Hour)); err != nil || len(got) != 1 ||
		got[0].Text != "text" {
		t.Errorf("%v, %v", got, err)
	}
}

// A migration reads in heartbeats whether instances of the new side store finalized notices.
func TestFiguresSayThatFinalizedNoticesAreNotStored(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	for _, keeps := range []time.Duration{0, time.Hour} {
		w := start(t, srv, newGot(1), func(o *Options) { o.Retention = keeps }, testRoute("r", "app1"))
		var f fleet.Figures
		if err := json.Unmarshal(w.figures(), &f); err != nil || f.KeepsNone != (keeps == 0) {
			t.Errorf("retention %s: %+v, %v", keeps, f, err)
		}
		w.stop()
	}
}
