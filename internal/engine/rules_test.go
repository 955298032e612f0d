package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// answering answers each notice by the status of its host; 200 without one.
type answering struct {
	*got
	mu     sync.Mutex
	status map[string]int // negative: no answer; 410: dead; 423: deferred
	flaky  string         // a host that refuses the first attempt of each notice
}

func newAnswering(status map[string]int) *answering {
	return &answering{got: newGot(10_000), status: status}
}

func (a *answering) set(host string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status[host] = status
}

func (a *answering) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	host := receivers.ReceiverOf(r, n.URL)
	a.mu.Lock()
	status := a.status[host]
	a.mu.Unlock()
	a.got.Handle(ctx, r, n)
	res := notice.DeliveredResult(200)
	if host != "" && host == a.flaky && n.AttemptsMade == 0 {
		status = 500
	}
	if status < 0 {
		res = notice.RetryResult(notice.ReasonConnect, "no")
	} else if status > 0 {
		res = notice.RetryResult(notice.ReasonStatus4xx, "no")
		res.Status = status
	}
	switch status {
	case 410:
		res = notice.DeadResult(notice.ReasonGone, "gone")
	case 423:
		res = notice.DeferredResult(notice.ReasonLocked, 10*time.Millisecond, "")
	}
	res.Host = host
	return res
}

// ruled is a route whose receivers are paused after answers with 401, and whose notices are retried after an hour.
func ruled(name, prefix string) *route.Route {
	r := testRoute(name, prefix)
	r.Target = route.Target{Kind: route.KindNotice}
	r.Ladder = notice.Ladder{time.Hour, time.Hour}
	r.OnStatus = route.OnStatus{401: route.ActionPause, 404: route.ActionPause}
	return r
}

// pauses returns the fields of the pauses at present.
func (w *world) pauses(t *testing.T) (list []string) {
	t.Helper()
	table, err := w.Holds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range table.Pauses() {
		if !p.Resumed {
			list = append(list, p.String())
		}
	}
	return list
}

func (w *world) one(t *testing.T, key, host, audience string) {
	t.Helper()
	r := to(key, host)
	r.Audience = audience
	if _, err := w.Schedule(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// tried waits until a notice has had so many attempts.
func (w *world) tried(t *testing.T, key string, n int) {
	t.Helper()
	eventually(t, key+" was tried", func() bool {
		f, err := w.Find(t.Context(), key)
		return err == nil && (f.AttemptsMade == n && f.State == notice.Scheduled || f.State == notice.Delivered)
	})
}

// A rule pauses the receiver after three such answers in a row to different notices, for the notices of the client that owns
// them, at that host and for that audience. Others are called on. A resume by hand delivers the held notices.
func TestRulePausesReceiverOfOneClient(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{"down.example:443": 401})
	w := start(t, testkit.SharedRedis(t), a, func(o *Options) {
		o.Clients = []string{"all", "shop"}
		o.Owners = []receivers.Owner{{Name: "all"}, {Name: "shop", Prefix: "app1:shop"}}
	}, ruled("r", "app1"))
	for i := range 2 {
		w.one(t, fmt.Sprintf("app1:shop:a:%d", i), "down.example", "m1")
		w.tried(t, fmt.Sprintf("app1:shop:a:%d", i), 1)
	}
	if _, err := w.Fire(t.Context(), "app1:shop:a:1"); err != nil { // the same notice does not count again
		t.Fatal(err)
	}
	w.tried(t, "app1:shop:a:1", 2)
	w.one(t, "app1:shop:b:1", "down.example", "m2") // another audience has its own row
	w.tried(t, "app1:shop:b:1", 1)
	if list := w.pauses(t); len(list) != 0 {
		t.Fatalf("paused: %v", list)
	}

	w.one(t, "app1:shop:a:3", "down.example", "m1")
	shop := receivers.Receiver{Prefix: "app1:shop", Host: "down.example:443", Audience: "m1"}
	eventually(t, "the receiver is paused", func() bool {
		p := w.holds.Table().Held("app1:shop:a:9", shop.Host, "m1", time.Now())
		return p != nil && p.String() == shop.String() && p.Rule == "ON_STATUS 401" && p.Client == "shop"
	})
	w.one(t, "app1:shop:a:4", "down.example", "m1")
	eventually(t, "its notices are held", func() bool { return w.heldNow(t, shop) == 1 })
	for _, other := range []string{"app1:shop:a:5 up.example m1", "app1:shop:a:6 down.example m3", "app1:other:a:7 down.example m1"} {
		f := strings.Fields(other)
		w.one(t, f[0], f[1], f[2])
		w.tried(t, f[0], 1)
	}
	list, err := w.Audited(t.Context(), audit.Range{}, 100)
	if err != nil || len(list) == 0 || list[0].Client != audit.Rule || list[0].Action != audit.PauseReceiver ||
		list[0].Prefix != "app1:shop" || list[0].Detail != "both/down.example:443/m1/app1:shop: ON_STATUS 401" {
		t.Errorf("%+v, %v", list, err)
	}

	a.set("down.example:443", 0)
	if paused, err := w.ResumeReceiver(t.Context(), shop, 0); err != nil || !paused {
		t.Fatal(paused, err)
	}
	w.until(t, "app1:shop:a:4", notice.Delivered)
}

// A pause by rule holds no notice of a longer route, though its prefix covers the keys. A pause of the operator stays one: the
// rule neither changes it nor adds another.
func TestRuleStaysWithinItsRouteAndLeavesOtherPauses(t *testing.T) {
	t.Parallel()
	a := newAnswering(map[string]int{"down.example:443": 401})
	plain := ruled("plain", "app1:trans")
	plain.OnStatus = nil
	w := start(t, testkit.SharedRedis(t), a, nil, ruled("r", "app1"), plain)
	for i := range 3 {
		w.one(t, fmt.Sprintf("app1:orders:a:%d", i), "down.example", "")
	}
	eventually(t, "the receiver is paused", func() bool {
		return w.holds.Table().Held("app1:orders:a:1", "down.example:443", "", time.Now()) != nil
	})
	w.one(t, key(1), "down.example", "")
	w.tried(t, key(1), 1)

	host := receivers.Receiver{Prefix: "app1", Host: "down.example:443"}
	if err := w.PauseReceiver(t.Context(), "", host, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	if done, err := w.holds.PauseByRule(t.Context(), receivers.Author{}, host, "ON_STATUS 401"); err != nil || done {
		t.Fatal(done, err)
	}
	table, err := w.Holds(t.Context())
	if p := table.Pauses(); err != nil || len(p) != 1 || p[0].Rule != "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// A pause by rule counts in the share of the client whose notices it holds.
func TestRulePauseCountsInTheClientsShare(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), newSink(1), nil, ruled("r", "app1"))
	pause := func(client string, i int) error {
		by := receivers.Author{Client: client, Most: 2}
		x := receivers.Receiver{Prefix: "app1", Host: fmt.Sprintf("h%d.example:443", i)}
		_, err := w.holds.PauseByRule(t.Context(), by, x, "ON_STATUS 401")
		return err
	}
	for i := range 2 {
		if err := pause("a", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := pause("a", 2); err == nil || !strings.Contains(err.Error(), "2") {
		t.Errorf("%v", err)
	}
	if err := pause("b", 3); err != nil {
		t.Error(err)
	}
}

// Of two instances, each with three such answers, one pauses the receiver, and the hook gets one notice of it, and one of its resume.
func TestHookLearnsOnceOfPauseByRule(t *testing.T) {
	t.Parallel()
	srv, a := testkit.SharedRedis(t), newAnswering(map[string]int{"down.example:443": 401})
	routes := func() []*route.Route {
		hook, r := testRoute("alarms", "ops"), ruled("r", "app1")
		hook.Target = route.Target{Kind: route.KindLog}
		r.OnDead, r.OnDown = hook, time.Hour
		return []*route.Route{r, hook}
	}
	window := func(o *Options) { o.RepeatWindow, o.RepeatBytes = time.Hour, 1<<20 }
	x, y := start(t, srv, a, window, routes()...), start(t, srv, a, window, routes()...)
	x.put(t, 40, func(i int) store.Request { return to(key(i), "down.example") })
	eventually(t, "the receiver is paused", func() bool { return len(y.pauses(t)) == 1 })
	var at time.Time
	eventually(t, "the hook is told", func() bool {
		p := y.holds.Table().Pauses()
		if len(p) == 1 {
			at = p[0].Since
		}
		return len(p) == 1 && p[0].Told
	})
	o := receivers.Outage{Since: at}
	told := "ops:dead:dead:" + o.ID("host/down.example:443/app1", "paused")
	f := x.until(t, told, notice.Delivered)
	for _, want := range []string{`"event":"paused","route":"r","receiver":"down.example:443","prefix":"app1","rule":"ON_STATUS 401","paused_at":"`} {
		if !strings.Contains(string(f.Body), want) {
			t.Errorf("%s, want %s", f.Body, want)
		}
	}
	if n := a.times(told); n != 1 {
		t.Errorf("the hook was called %d times", n)
	}
	a.set("down.example:443", 0)
	if done, err := y.ResumeReceiver(t.Context(), receivers.Receiver{Prefix: "app1", Host: "down.example:443"}, 0); err != nil || !done {
		t.Fatal(done, err)
	}
	ended := "ops:dead:dead:" + o.ID("host/down.example:443/app1", "resumed")
	f = x.until(t, ended, notice.Delivered)
	for _, want := range []string{`"event":"resumed","route":"r","receiver":"down.example:443"`, `"paused_at":"`, `"resumed_at":"`} {
		if !strings.Contains(string(f.Body), want) {
			t.Errorf("%s, want %s", f.Body, want)
		}
	}
	if n := a.times(ended); n != 1 {
		t.Errorf("the hook was called %d times of the resume", n)
	}
	list, err := x.Audited(t.Context(), audit.Range{}, 100)
	list = slices.DeleteFunc(list, func(e audit.Entry) bool { return e.Action == audit.Settings })
	if err != nil || len(list) != 1 || list[0].Count != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A receiver that fails for PAUSE_AFTER without a success is paused, without an answer too, by one of two instances. One that has
// answered between is not. After a resume, its health begins anew.
func TestReceiverThatFailsTooLongIsPaused(t *testing.T) {
	t.Parallel()
	srv, a := testkit.SharedRedis(t), newAnswering(map[string]int{"down.example:443": -1})
	a.flaky = "flaky.example:443"
	routes := func() *route.Route {
		r := ruled("r", "app1")
		r.Ladder, r.OnStatus, r.PauseAfter = notice.Ladder{200 * time.Millisecond, 200 * time.Millisecond, time.Hour}, nil, 150*time.Millisecond
		return r
	}
	x, y := start(t, srv, a, nil, routes()), start(t, srv, a, nil, routes())
	x.one(t, key(1), "flaky.example", "m1")
	x.until(t, key(1), notice.Delivered)
	x.one(t, key(2), "down.example", "m1")
	down := receivers.Receiver{Prefix: "app1", Host: "down.example:443", Audience: "m1"}
	eventually(t, "the receiver is paused", func() bool {
		p := y.holds.Table().Held(key(3), "down.example:443", "m1", time.Now())
		return p != nil && p.String() == down.String() && p.Rule == "PAUSE_AFTER 150ms"
	})
	if list := x.pauses(t); len(list) != 1 {
		t.Errorf("%v", list)
	}
	health := &receivers.HealthStore{Wire: x.store.Wire(), Rules: true}
	eventually(t, "its health begins anew", func() bool {
		list, err := health.Read(t.Context(), []string{"app1"})
		return err == nil && !slices.ContainsFunc(list[0].Receivers, func(h receivers.Health) bool { return h.Name == down.String() })
	})
	if _, err := y.ResumeReceiver(t.Context(), down, 0); err != nil {
		t.Fatal(err)
	}
	if list := x.pauses(t); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

// earlier moves the times of a pause by rule back, so that a probe is due.
func (w *world) earlier(t *testing.T, r receivers.Receiver) {
	t.Helper()
	at := time.Now().Add(-11 * time.Minute).UnixMilli()
	_, err := w.store.Layout.SetReceiver(t.Context(), store.ReceiverChange{Field: r.String(),
		Value: fmt.Sprintf(`,"rule":"ON_STATUS 401","since":%d}`, at)})
	if err != nil {
		t.Fatal(err)
	}
}

// probed waits until a probe was chosen, and returns its key.
func (w *world) probed(t *testing.T, r receivers.Receiver) (key string) {
	t.Helper()
	eventually(t, "a probe is chosen", func() bool {
		table, err := w.Holds(t.Context())
		i := -1
		if err == nil {
			i = slices.IndexFunc(table.Pauses(), func(p *receivers.Pause) bool { return p.Receiver == r && !p.Probed.IsZero() })
		}
		if i >= 0 {
			key = table.Pauses()[i].Probe
		}
		return i >= 0
	})
	return key
}

// Of two instances one makes the probe. It is the notice with the most attempts left, and never its last one. A failure leaves the
// pause, a success resumes the receiver.
func TestProbeResumesReceiver(t *testing.T) {
	t.Parallel()
	srv, a := testkit.SharedRedis(t), newAnswering(map[string]int{"down.example:443": 401})
	routes := func() *route.Route {
		r := ruled("r", "app1")
		r.Ladder = notice.Ladder{time.Hour}
		return r
	}
	x, y := start(t, srv, a, nil, routes()), start(t, srv, a, nil, routes())
	down := receivers.Receiver{Prefix: "app1", Host: "down.example:443"}
	calls := func() (n int) {
		for i := range 10 {
			n += a.times(key(i))
		}
		return n
	}
	if done, err := x.holds.PauseByRule(t.Context(), receivers.Author{}, down, "ON_STATUS 401"); err != nil || !done {
		t.Fatal(done, err)
	}
	eventually(t, "both know the pause", func() bool { return len(x.holds.Table().Pauses())+len(y.holds.Table().Pauses()) == 2 })
	x.one(t, key(1), "down.example", "")
	eventually(t, "it is held", func() bool { return x.heldNow(t, down) == 1 })
	x.earlier(t, down)
	if k := x.probed(t, down); k != key(1) {
		t.Fatalf("the probe is %q", k)
	}
	x.tried(t, key(1), 1) // it has failed
	if _, err := x.Fire(t.Context(), key(1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is held with its last attempt", func() bool { return x.heldNow(t, down) == 1 })
	x.earlier(t, down)
	if k := x.probed(t, down); k != "" {
		t.Fatalf("%q is a probe with its last attempt", k)
	}
	if n := calls(); n != 1 {
		t.Errorf("%d calls, want one probe", n)
	}

	x.one(t, key(2), "down.example", "")
	x.one(t, key(3), "down.example", "")
	eventually(t, "all are held", func() bool { return x.heldNow(t, down) == 3 })
	a.set("down.example:443", 0)
	x.earlier(t, down)
	eventually(t, "the receiver is resumed", func() bool { return len(x.pauses(t)) == 0 })
	if n := a.times(key(2)) + a.times(key(3)); n == 0 {
		t.Error("no fresh notice was the probe")
	}
	table, err := x.Holds(t.Context())
	if p := table.Pauses(); err != nil || len(p) != 1 || p[0].Over != time.Minute {
		t.Errorf("%+v, %v", p, err)
	}
	eventually(t, "the audit has the resume", func() bool {
		list, err := x.Audited(t.Context(), audit.Range{}, 100)
		return err == nil && slices.ContainsFunc(list, func(e audit.Entry) bool {
			return e.Action == audit.ResumeReceiver && e.Client == audit.Rule && e.Detail == down.String()+": ON_STATUS 401, a probe was delivered"
		})
	})
}
