package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"notifier/internal/keys"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

var errKilled = errors.New("killed")

// hookFleet is two instances with one Redis. The next instance takes over when one is killed before its step.
type hookFleet struct {
	t        *testing.T
	s        *receivers.HealthStore
	all      [2]*Hooks
	tracker  *receivers.Tracker
	steps    int // until an instance is killed; negative = never
	told     []string
	bodies   map[string]string
	requests int
}

func newHookFleet(t *testing.T) *hookFleet {
	t.Helper()
	srv := testkit.SharedRedis(t)
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
	f := &hookFleet{t: t, s: &receivers.HealthStore{Wire: wire.New(wire.Options{Client: srv.Client(), Space: space})},
		tracker: receivers.NewTracker(),
		steps:   -1, bodies: map[string]string{}}
	hook := &route.Route{Name: "alarms", Prefix: "ops"}
	table, err := route.NewTable([]*route.Route{{Name: "orders", Prefix: "app1", OnDead: hook, OnDown: time.Minute}, hook})
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.all {
		f.all[i] = NewHooks(HooksOptions{Store: &fakeDeaths{shards: [][]string{nil}}, Schedule: f, Health: f, Routes: table, Space: space,
			Logger: zaptest.NewLogger(t)})
	}
	return f
}

// step is called before each change in Redis.
func (f *hookFleet) step() error {
	if f.steps == 0 {
		return errKilled
	}
	f.steps--
	return nil
}

func (f *hookFleet) Many(_ context.Context, reqs []store.Request) []store.Reply {
	out := make([]store.Reply, len(reqs))
	for i, r := range reqs {
		f.requests++
		if out[i].Err = f.step(); out[i].Err != nil || r.OnDuplicate != store.Keep || f.bodies[r.Key] != "" {
			continue
		}
		f.told, f.bodies[r.Key] = append(f.told, r.Key), string(r.Body)
	}
	return out
}

func (f *hookFleet) Read(ctx context.Context, prefixes []string) ([]receivers.RouteHealth, error) {
	return f.s.Read(ctx, prefixes)
}

func (f *hookFleet) Outages(ctx context.Context, prefix string) (map[string]receivers.Outage, time.Time, error) {
	return f.s.Outages(ctx, prefix)
}

func (f *hookFleet) SetOutage(ctx context.Context, prefix, receiver string, old, o *receivers.Outage) (bool, error) {
	if err := f.step(); err != nil {
		return false, err
	}
	return f.s.SetOutage(ctx, prefix, receiver, old, o)
}

const failingReceiver = "shop.example:443"

func (f *hookFleet) observe(at time.Time, failed bool) {
	f.t.Helper()
	a := receivers.Attempt{At: at, Failed: failed, Status: 200}
	if failed {
		a.Status, a.Reason = 500, "status_5xx"
	}
	f.tracker.Observe("app1", failingReceiver, a)
	if err := f.s.Write(f.t.Context(), f.tracker); err != nil {
		f.t.Fatal(err)
	}
}

func (f *hookFleet) pass(i int) {
	f.t.Helper()
	if err := f.all[i].pass(f.t.Context(), true); err != nil && !errors.Is(err, errKilled) {
		f.t.Fatal(err)
	}
}

// ids returns the last two parts of the ids of the scheduled notices.
func (f *hookFleet) ids() (list []string) {
	for _, key := range f.told {
		_, id, _ := strings.Cut(key, "-")
		list = append(list, id)
	}
	return list
}

func id(at time.Time, event string) string { return fmt.Sprintf("%d-%s", at.UnixMilli(), event) }

func TestReceiverIsDownAndUpOnceThroughKills(t *testing.T) {
	for kill := range 8 {
		t.Run(fmt.Sprint(kill), func(t *testing.T) {
			f := newHookFleet(t)
			since := time.Now().Add(-time.Hour)
			f.observe(since, true)
			f.steps = kill
			f.pass(0)
			recovers := kill < 3 // while the killed instance's work is not done
			if recovers && kill > 0 {
				f.observe(since.Add(time.Minute), false)
				f.pass(0)
			}
			f.steps = max(-1, kill-3)
			if !recovers {
				f.pass(0)
				f.observe(since.Add(time.Minute), false)
				f.pass(0)
			}
			f.steps = -1
			f.pass(1)
			f.observe(since.Add(2*time.Minute), false)
			f.pass(1)
			f.pass(0)
			if want := []string{id(since, "down"), id(since, "up")}; !slices.Equal(f.ids(), want) {
				t.Errorf("scheduled %q, want %q", f.ids(), want)
			}
			if list, _, err := f.s.Outages(t.Context(), "app1"); err != nil || len(list) > 0 {
				t.Errorf("outages %v, %v, want none", list, err)
			}
		})
	}
}

func TestReceiverUpHasFactsOfItsFailure(t *testing.T) {
	f := newHookFleet(t)
	since := time.Now().Add(-time.Hour)
	f.observe(since, true)
	f.observe(since.Add(time.Second), true)
	f.pass(0)
	f.observe(since.Add(time.Minute), false)
	f.pass(1)
	var got outageFacts
	if len(f.told) != 2 {
		t.Fatalf("scheduled %q, want two notices", f.told)
	}
	if err := json.Unmarshal([]byte(f.bodies[f.told[1]]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Event != "up" || got.Route != "orders" || got.Receiver != failingReceiver || got.Failures != 2 || got.FailingSince == "" ||
		got.AnsweredAt == "" || got.LastFailure.Status != 500 || got.LastFailure.Reason != "status_5xx" {
		t.Errorf("%+v", got)
	}
}

// A receiver that has not failed for long enough causes no notice, also not when it answers.
func TestShortFailureSendsNothing(t *testing.T) {
	f := newHookFleet(t)
	now := time.Now()
	f.observe(now, true)
	f.pass(0)
	f.observe(now.Add(time.Second), false)
	f.pass(0)
	if f.requests > 0 {
		t.Errorf("scheduled %q, want none", f.told)
	}
}

// Another instance writes an earlier failure later. It belongs to the same outage.
func TestEarlierFailureIsNoNewOutage(t *testing.T) {
	f := newHookFleet(t)
	since := time.Now().Add(-time.Hour)
	f.observe(since, true)
	f.pass(0)
	f.tracker = receivers.NewTracker()
	f.observe(since.Add(-time.Minute), true)
	f.pass(1)
	if want := []string{id(since, "down")}; !slices.Equal(f.ids(), want) {
		t.Errorf("scheduled %q, want %q", f.ids(), want)
	}
}

// The receiver answers and fails again before an instance looks.
func TestNextOutageFollowsUp(t *testing.T) {
	f := newHookFleet(t)
	since := time.Now().Add(-time.Hour)
	f.observe(since, true)
	f.pass(0)
	f.observe(since.Add(time.Minute), false)
	f.observe(since.Add(2*time.Minute), true)
	f.pass(1)
	f.pass(1)
	if want := []string{id(since, "down"), id(since, "up"), id(since.Add(2*time.Minute), "down")}; !slices.Equal(f.ids(), want) {
		t.Errorf("scheduled %q, want %q", f.ids(), want)
	}
}

// An instance that read the outage before another ended it does not remove the next one.
func TestOldReaderKeepsNextOutage(t *testing.T) {
	f := newHookFleet(t)
	first, next := receivers.Outage{Since: time.UnixMilli(1), Sent: true}, receivers.Outage{Since: time.UnixMilli(2)}
	for _, v := range []struct {
		old, o *receivers.Outage
		want   bool
	}{{nil, &first, true}, {nil, &next, false}, {&first, nil, true}, {nil, &next, true}, {&first, nil, false}} {
		if got, err := f.s.SetOutage(t.Context(), "app1", "x", v.old, v.o); err != nil || got != v.want {
			t.Errorf("%v to %v: %t, %v, want %t", v.old, v.o, got, err, v.want)
		}
	}
	if list, _, _ := f.s.Outages(t.Context(), "app1"); !list["x"].Since.Equal(next.Since) {
		t.Errorf("outages %v, want the next one", list)
	}
}

func TestForgottenReceiverEndsItsOutage(t *testing.T) {
	f := newHookFleet(t)
	o := receivers.Outage{Since: time.Now().Add(-receivers.Kept)}
	if _, err := f.s.SetOutage(t.Context(), "app1", "gone.example:443", nil, &o); err != nil {
		t.Fatal(err)
	}
	f.pass(0)
	if list, _, err := f.s.Outages(t.Context(), "app1"); err != nil || len(list) > 0 || f.requests > 0 {
		t.Errorf("outages %v, %v, notices %q, want none", list, err, f.told)
	}
}
