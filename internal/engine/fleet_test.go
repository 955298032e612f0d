package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"notifier/internal/callback"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// TestOneInstanceReadsTheFlags: of two instances one is preferred for a node's notify flags,
// and the other one when that has left.
func TestOneInstanceReadsTheFlags(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	both := [2]*world{}
	for i := range both {
		both[i] = start(t, srv, newSink(16), func(o *Options) { o.Instance = fmt.Sprint(i) }, testRoute("orders", "app1"))
	}
	reads := func() (n int) {
		for _, w := range both {
			if w.assignment.ReadsFlags(srv.Addr()) {
				n++
			}
		}
		return n
	}
	eventually(t, "one of two", func() bool {
		return both[0].Fleet().View().Alive() == 2 && both[1].Fleet().View().Alive() == 2 && reads() == 1
	})
	first := 0
	if !both[0].assignment.ReadsFlags("the other address of a node outside a cluster") {
		first = 1
	}
	if both[1-first].assignment.ReadsFlags("the other address of a node outside a cluster") {
		t.Error("both read the flags")
	}
	both[first].stop()
	eventually(t, "the one that is left", func() bool { return both[1-first].assignment.ReadsFlags(srv.Addr()) })
}

// Three engines list each other with the state that each publishes. An engine that is stopped
// leaves, and differences are named.
func TestInstancesKnowEachOther(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	as := func(name string, routes ...*route.Route) *world {
		return start(t, srv, newSink(16), func(o *Options) {
			o.Instance, o.Version, o.Takeover, o.Limits = name, "v-"+name, 3*time.Second, "fleet"
		}, routes...)
	}
	other := testRoute("orders", "app1")
	other.Rate = 5
	a, b := as("a", testRoute("orders", "app1")), as("b", testRoute("orders", "app1"))
	c := as("c", other)
	for _, w := range []*world{a, b, c} {
		eventually(t, "all three live", func() bool { return w.Fleet().View().Alive() == 3 && w.Fleet().Stats().Alive == 3 })
	}
	list, err := a.Instances(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	digest := testRoute("orders", "app1").Digest()
	for _, x := range list {
		if x.State != fleet.Alive || x.Version != "v-"+x.Label || x.Takeover != 3000 || x.Limits != "fleet" ||
			time.Since(x.Started) > time.Minute {
			t.Errorf("%+v", x)
		}
		if differs := len(x.Differences(map[string]string{"orders": digest})) > 0; differs != (x.Label == "c") {
			t.Errorf("%s differs: %t; it has %v", x.Label, differs, x.Routes)
		}
	}
	// Nothing is left to one that has the route otherwise.
	if a.Fleet().View().SameConfig("orders") || c.Fleet().View().SameConfig("orders") {
		t.Error("a route that another instance has otherwise counts as everybody's")
	}
	b.stop()
	eventually(t, "the others know that b has left", func() bool { return a.Fleet().Stats().Alive == 2 && c.Fleet().Stats().Alive == 2 })
	if s := a.Fleet().Stats(); s.Dead+s.Renamed > 0 {
		t.Errorf("one that left counts as dead: %+v", s)
	}
	if list, err := a.Instances(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	c.stop()
	eventually(t, "all that live have the route alike", func() bool { return a.Fleet().View().SameConfig("orders") })
}

// TestStopKeepsItsPlaceUntilTheLastHandler: an instance that drains is leaving, and
// holds its part of limits, until its handlers have ended.
func TestStopKeepsItsPlaceUntilTheLastHandler(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	hold, begun := make(chan struct{}), make(chan struct{}, 1)
	slow := newSink(16)
	slow.answer = func(*notice.Notice) notice.Result {
		begun <- struct{}{}
		<-hold
		return notice.DeliveredResult(200)
	}
	a := start(t, srv, slow, nil, testRoute("orders", "app1"))
	b := start(t, srv, newSink(16), nil, testRoute("other", "app2"))
	eventually(t, "both live", func() bool { return a.Fleet().Stats().Alive == 2 && b.Fleet().Stats().Alive == 2 })
	a.put(t, 1, func(int) store.Request { return store.Request{Key: "app1:m:t:1"} })
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); a.stop() }()
	eventually(t, "a is leaving", func() bool { return b.Fleet().Stats().Leaving == 1 })
	if got := b.Fleet().View().Share("host", 16); got != 8 {
		t.Errorf("b holds %d of 16 while a still calls, want 8", got)
	}
	close(hold)
	<-stopped
	eventually(t, "a has left", func() bool { s := b.Fleet().Stats(); return s.Leaving == 0 && s.Alive == 1 })
	if got := b.Fleet().View().Share("host", 16); got != 16 {
		t.Errorf("b holds %d of 16 when alone", got)
	}
}

// Regression test: a message about a notice without a route here took 1 off the count of notices handed to this instance,
// which bounds them.
func TestMessageWithoutARouteIsNotCounted(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	a := start(t, srv, newSink(16), nil, testRoute("orders", "app1"), testRoute("other", "app2"))
	b := start(t, srv, newSink(16), nil, testRoute("orders", "app1"))
	eventually(t, "both live", func() bool { return a.Fleet().Stats().Alive == 2 && b.Fleet().Stats().Alive == 2 })
	for _, k := range []string{"app2:m:t:1", "app1:m:t:1", "app1:m:t:2"} {
		a.HandOver(callback.Handover{Key: k, To: b.Self(), After: maxHandOverAfter})
	}
	eventually(t, "two notices are counted", func() bool { return b.coming.Load() == 2 })
}

// TestFleetKeysForbidden: where the keys of the fleet hold something else, or may
// not be touched, notices are delivered as if each instance were alone.
func TestFleetKeysForbidden(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	if err := srv.Client().Set(t.Context(), srv.Namespace()+":{fleet}:signs", "somebody else's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	h := newSink(16)
	w := start(t, srv, h, nil, testRoute("orders", "app1"))
	w.put(t, 1, func(int) store.Request { return store.Request{Key: "app1:m:t:1"} })
	h.await(t, 1)
	if v := w.Fleet().View(); v.Known() || v.Share("host", 16) != 16 || !v.Prefers("x") {
		t.Errorf("%v", v)
	}
	if _, err := w.Instances(context.Background()); err == nil {
		t.Error("who lives can be read where there is no such key")
	}
}

// TestWhatFallsDueTogetherComesOnce: what three instances touch in groups, each group for
// one of them, comes once and on all of them.
func TestWhatFallsDueTogetherComesOnce(t *testing.T) {
	t.Parallel()
	const n = 400
	srv := testkit.StartRedis(t)
	h := newSink(n + 16)
	var all []*world
	for range 3 {
		all = append(all, start(t, srv, h, nil, testRoute("orders", "app1")))
	}
	for _, w := range all {
		eventually(t, "all live", func() bool { return w.Fleet().View().Alive() == 3 })
	}
	if g := all[0].assignment.Group(keys.Partition{Prefix: "app1"}); g != 8 {
		t.Errorf("groups of %d, want 8", g)
	}
	from := time.Now().Add(500 * time.Millisecond)
	all[0].put(t, n, func(i int) store.Request {
		return store.Request{Key: fmt.Sprintf("app1:m:t:%d", i), Due: from.Add(time.Duration(i/20) * 20 * time.Millisecond)}
	})
	h.await(t, n)
	eventually(t, "all settled", func() bool {
		c, _, err := all[0].store.Counts(t.Context(), []string{"app1"})
		return err == nil && c[0].Pending == 0
	})
	h.once(t, n)
}
