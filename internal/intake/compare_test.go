package intake

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func adoptingTable(t *testing.T) *route.Table {
	t.Helper()
	routes, err := route.NewTable([]*route.Route{{Name: "r", Prefix: "app1", Adopt: true}})
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// secondLooks checks the waiting keys again, each at its time.
func secondLooks(t *testing.T, a *Adopter) {
	t.Helper()
	for len(a.second) > 0 {
		time.Sleep(time.Until(a.second[0].at)) // sleep: the time in which events may arrive
		if err := a.lookAgain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// adopting returns an Adopter that no goroutine runs, its store, and a client of their Redis.
func adopting(t *testing.T) (*Adopter, *store.Store, *redis.Client) {
	t.Helper()
	srv := testkit.StartRedis(t)
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
	s := store.New(store.Options{Client: srv.Client(), Space: space, Retention: 24 * time.Hour, Retain: 1000})
	a := NewAdopter(AdopterOptions{Store: Redis{s}, Routes: adoptingTable(t), Space: space, MaxBody: 1 << 10, Logger: zaptest.NewLogger(t)})
	return a, s, srv.Client()
}

func TestTimersAreComparedByScansAndShortlyBeforeTheyAreDue(t *testing.T) {
	ctx := t.Context()
	a, s, c := adopting(t)
	state := func(k string, want notice.State) {
		t.Helper()
		if f, err := s.Find(ctx, "app1", k); err != nil || f.State != want {
			t.Errorf("%s: %+v, %v; want it %s", k, f, err, want)
		}
	}
	// Only adopted notices are compared. The service's own timer may be missing for other reasons.
	const api = "app1:a:api:1"
	if _, err := s.Schedule(ctx, keys.Partition{Prefix: "app1"}, []store.Request{{Key: api, Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	c.Del(ctx, api)
	far := make([]string, 1200)
	for i := range far {
		far[i] = fmt.Sprintf("app1:a:far:%d", i)
		c.Set(ctx, far[i], `{"a":1}`, time.Hour)
	}
	const near, there = "app1:a:near:1", "app1:a:there:1"
	c.Set(ctx, there, "p", time.Hour)
	if err := a.Follow(ctx, append(far, there)...); err != nil {
		t.Fatal(err)
	}
	c.Del(ctx, far[1:]...)
	c.Set(ctx, near, "p", soon-100*time.Millisecond)
	if err := a.Follow(ctx, near); err != nil {
		t.Fatal(err)
	}
	c.Del(ctx, near)
	if err := a.compareDue(ctx); err != nil {
		t.Fatal(err)
	}
	state(near, notice.Scheduled) // its event may be on its way
	secondLooks(t, a)
	state(near, notice.Cancelled)
	state(far[1], notice.Scheduled)
	// A missing timer is no reason to cancel if Redis may have evicted it.
	c.ConfigSet(ctx, "maxmemory", "1gb")
	c.ConfigSet(ctx, "maxmemory-policy", "volatile-lru")
	if err := a.compareAll(ctx); err != nil || !a.evicts {
		t.Fatal(a.evicts, err)
	}
	secondLooks(t, a)
	state(far[1], notice.Scheduled)
	c.ConfigSet(ctx, "maxmemory-policy", "noeviction")
	if err := a.compareAll(ctx); err != nil || a.evicts {
		t.Fatal(a.evicts, err)
	}
	secondLooks(t, a)
	for _, k := range far[1:] {
		state(k, notice.Cancelled)
	}
	for _, k := range []string{there, api, far[0]} {
		state(k, notice.Scheduled)
	}
}

// away is a Redis whose events come and whose scripts fail.
type away struct{ AdopterStore }

func (away) Peek(context.Context, keys.Partition, []string, int64) (time.Time, []Seen, int, error) {
	return time.Time{}, nil, 0, errors.New("away")
}

func (away) Where(_ context.Context, ks []string) ([]int, error) { return make([]int, len(ks)), nil }

func (away) Unknown(context.Context, keys.Partition, []string, time.Duration) (none, old []string, err error) {
	return nil, nil, errors.New("away")
}

func TestWaitingKeysAreBoundedDuringAnOutage(t *testing.T) {
	a := NewAdopter(AdopterOptions{Store: away{}, Routes: adoptingTable(t), Space: keys.Space{Namespace: "notifier", Shards: 1},
		Logger: zap.NewNop()})
	n := 0
	for range 3 {
		for range maxPendingExpired {
			a.Event(nil, fmt.Sprintf("app1:a:b:%d", n), "expired")
			n++
		}
		// More events arrive while the first keys are checked.
		a.mu.Lock()
		some := a.pending
		a.pending = map[string]eventSet{}
		a.mu.Unlock()
		for range maxPendingExpired {
			a.Event(nil, fmt.Sprintf("app1:a:b:%d", n), "expired")
			n++
		}
		a.putBack(some)
		if len(a.pending) > maxPendingExpired {
			t.Fatalf("%d keys wait, %d at most have room", len(a.pending), maxPendingExpired)
		}
	}
	if err := a.Drain(t.Context()); err == nil || len(a.pending) == 0 {
		t.Errorf("%d keys wait, %v", len(a.pending), err)
	}
}

// A second look that fails is taken again.
func TestFailedSecondCheckIsRetried(t *testing.T) {
	a := NewAdopter(AdopterOptions{Store: away{}, Routes: adoptingTable(t), Confirm: time.Nanosecond, Logger: zap.NewNop()})
	a.compareLater("app1:a:b:1", "app1:a:b:2")
	a.o.Confirm = time.Hour
	a.compareLater("app1:a:b:3")
	for range 2 {
		if err := a.lookAgain(t.Context()); err == nil || len(a.second) != 3 || a.second[0].key != "app1:a:b:1" {
			t.Errorf("%v, %v", a.second, err)
		}
	}
}

func (away) Stranded(_ context.Context, ks []string) ([]bool, error) {
	return make([]bool, len(ks)), nil
}

// The service's own timer whose expiry a client changes is not taken for a payload, although the
// first check comes between the events of the service's SET and that of the client's EXPIRE.
func TestExpireAfterTheServicesOwnSetIsNoPayload(t *testing.T) {
	ctx := t.Context()
	a, s, c := adopting(t)
	const moved, set = "app1:a:moved:1", "app1:a:set:1"
	for _, k := range []string{moved, set} {
		if _, err := s.Schedule(ctx, keys.Partition{Prefix: "app1"}, []store.Request{{Key: k, Delay: time.Hour,
			Content: notice.Content{Body: []byte("body")}}}); err != nil {
			t.Fatal(err)
		}
		c.Expire(ctx, k, 2*time.Hour)
		a.Event(nil, k, "set")
		a.Event(nil, k, "expire")
	}
	c.Set(ctx, set, "1", 2*time.Hour) // a payload that is the number of the next attempt
	expect := func(k, body string) {
		t.Helper()
		f, err := s.Find(ctx, "app1", k)
		if err != nil || string(f.Body) != body || time.Until(f.Due) < 90*time.Minute {
			t.Errorf("%s: body %q, due %s, %v; want %q, in two hours", k, f.Body, f.Due, err, body)
		}
	}
	if err := a.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	a.Event(nil, moved, "expire")
	if err := a.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	expect(moved, "body")
	secondLooks(t, a)
	expect(moved, "body")
	expect(set, "1")
}

// Payloads in memory are bounded, and none outlives the event that changed it.
func TestPayloadsAreBounded(t *testing.T) {
	var p payloads
	first := p.expect("first")
	if first == nil || p.expect("first") != nil {
		t.Error("a key is expected twice, or not at all")
	}
	p.put("first", first, make([]byte, maxPayloads/2))
	big := p.expect("big")
	p.put("big", big, make([]byte, maxPayloads/2+1))
	if p.by["big"] != nil || p.by["first"] == nil || p.bytes > maxPayloads {
		t.Errorf("%d bytes in %d payloads", p.bytes, len(p.by))
	}
	p.drop("first") // by an event
	p.put("first", first, []byte("outdated"))
	if len(p.by) != 0 || p.bytes != 0 {
		t.Errorf("%d bytes in %d payloads", p.bytes, len(p.by))
	}
}
