package intake

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap/zaptest"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// A late event of a notice that has just ended is not a new timer; an event long after the end is.
func TestExpiredTimerOfAnEndedNotice(t *testing.T) {
	srv := testkit.SharedRedis(t)
	ctx, c := t.Context(), srv.Client()
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
	s := store.New(store.Options{Client: c, Space: space, Retention: 24 * time.Hour, Retain: 1000})
	table, err := route.NewTable([]*route.Route{{Name: "r", Prefix: "app1", Adopt: true}})
	if err != nil {
		t.Fatal(err)
	}
	n := &counts{}
	a := NewAdopter(AdopterOptions{Store: Redis{s}, Routes: table, Space: space, MaxBody: 1 << 10, Observer: n, Logger: zaptest.NewLogger(t)})
	r := table.All()[0]
	put := func(key string) {
		t.Helper()
		if _, err := s.Schedule(ctx, keys.Partition{Prefix: "app1"},
			[]store.Request{{Key: key, Delay: time.Hour, Content: notice.Content{Body: []byte("first")}}}); err != nil {
			t.Fatal(err)
		}
	}
	end := func(key string, ago time.Duration) {
		t.Helper()
		if _, err := s.Amend(ctx, "app1", key, store.Cancel, store.When{}); err != nil {
			t.Fatal(err)
		}
		at := float64(time.Now().Add(-ago).UnixMilli()) + .5
		if err := c.ZAddXX(ctx, space.Settled(keys.Partition{Prefix: "app1"}), redis.Z{Score: at, Member: key}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]notice.State{}
	for key, ago := range map[string]time.Duration{"app1:a:b:long": time.Hour, "app1:a:b:just": time.Minute} {
		put(key)
		end(key, ago)
		want[key] = notice.Cancelled
	}
	put("app1:a:b:pending")
	want["app1:a:b:pending"], want["app1:a:b:long"], want["app1:a:b:new"] = notice.Scheduled, notice.Scheduled, notice.Scheduled
	for key := range want {
		a.Event(r, key, "expired")
		a.Event(r, key, "expired")
	}
	if err := a.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for key, state := range want {
		f, err := s.Find(ctx, "app1", key)
		isLost := key == "app1:a:b:long" || key == "app1:a:b:new"
		if err != nil || f.State != state || f.Lost != isLost || (len(f.Body) == 0) != isLost {
			t.Errorf("%s: %+v, %v; want it %s, lost %v", key, f, err, state, isLost)
		}
	}
	if n.adopted.Load() != 2 || n.lost.Load() != 2 {
		t.Errorf("%d adopted, %d lost; want 2 and 2", n.adopted.Load(), n.lost.Load())
	}
}

// peeks is a store that reports each answered check of timers.
type peeks struct {
	AdopterStore
	looked func()
}

func (p peeks) Peek(ctx context.Context, at keys.Partition, ks []string, most int64) (time.Time, []Seen, int, error) {
	now, seen, n, err := p.AdopterStore.Peek(ctx, at, ks, most)
	p.looked()
	return now, seen, n, err
}

// A payload that equals the attempt number in the service's own timers is recognized only by its
// event. A scan before the event must not follow its expiry and drop the payload. Without an event,
// it follows the expiry.
func TestScanWaitsForTheEventOfANumber(t *testing.T) {
	for _, comes := range []bool{true, false} {
		srv := testkit.SharedRedis(t)
		ctx, c := t.Context(), srv.Client()
		space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
		s := store.New(store.Options{Client: c, Space: space, Retention: 24 * time.Hour, Retain: 1000})
		k := "app1:" + srv.Namespace() + ":number:1" // servers are shared
		var a *Adopter
		looks := 0
		p := peeks{AdopterStore: Redis{s}, looked: func() {
			if looks++; looks == 2 && comes {
				a.Event(a.o.Routes.All()[0], k, "set")
				a.Event(a.o.Routes.All()[0], k, "expire")
			}
		}}
		a = NewAdopter(AdopterOptions{Store: p, Routes: adoptingTable(t), Space: space, MaxBody: 1 << 10, Confirm: time.Millisecond,
			Logger: zaptest.NewLogger(t)})
		set := func(value string, life time.Duration) {
			if err := c.Set(ctx, k, value, life).Err(); err != nil {
				t.Fatal(err)
			}
		}
		set("unpaid", time.Hour)
		if why := a.FollowEach(ctx, []string{k}); why[k] != nil {
			t.Fatal(why[k])
		}
		set("1", 2*time.Hour)
		if err := a.Look(ctx); err != nil {
			t.Fatal(err)
		}
		secondLooks(t, a)
		f, err := s.Find(ctx, "app1", k)
		want := "unpaid"
		if comes {
			want = "1"
		}
		if err != nil || string(f.Body) != want || f.Due.UnixMilli() != c.PExpireTime(ctx, k).Val().Milliseconds()+1 {
			t.Errorf("an event comes: %t; the notice has the body %q and is due %s, %v; want %q", comes, f.Body, f.Due, err, want)
		}
		if looks < 3 {
			t.Errorf("%d looks", looks)
		}
	}
}

// restless is a store in which each reply is followed by another event.
type restless struct {
	AdopterStore
	event   func(n int)
	answers int
	timers  []string
	strays  []string // due soon
	scanned chan struct{}
}

func (s *restless) Where(_ context.Context, ks []string) ([]int, error) {
	s.answers++
	s.event(s.answers)
	return make([]int, len(ks)), nil
}

func (s *restless) Peek(_ context.Context, _ keys.Partition, ks []string, _ int64) (time.Time, []Seen, int, error) {
	return time.Now(), nil, len(ks), nil
}

func (s *restless) StraysDue(context.Context, keys.Partition, time.Duration) ([]string, time.Duration, error) {
	return s.strays, 0, nil
}

func (s *restless) Evicts(context.Context) (bool, error) { return true, nil }

func (s *restless) Timers(ctx context.Context, _ func(context.Context, func(context.Context, redis.Cmdable) error) error, _ string, _ int64,
	f func(ctx context.Context, ks []string) error) error {
	for _, k := range s.timers {
		if err := f(ctx, []string{k}); err != nil {
			return err
		}
	}
	close(s.scanned)
	return nil
}

// runs runs an Adopter until stop is called, which may be called again.
func runs(t *testing.T, a *Adopter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// scans runs an Adopter on s until it has scanned all timers.
func (s *restless) scans(t *testing.T, a *Adopter) {
	t.Helper()
	s.scanned = make(chan struct{})
	defer runs(t, a)()
	testkit.Next(t, "all timers are scanned", s.scanned)
}

// A stream of events without end delays neither a requested scan nor its end: a timer whose event
// was lost may expire earlier.
func TestScanDoesNotWaitForAnEndOfEvents(t *testing.T) {
	s := &restless{timers: []string{"app1:a:b:unheard", "app1:a:b:too"}}
	a := NewAdopter(AdopterOptions{Store: s, Routes: adoptingTable(t), MaxBody: 1 << 10, Logger: zaptest.NewLogger(t)})
	s.event = func(n int) { a.Event(nil, fmt.Sprintf("app1:a:b:%d", n), "set") }
	s.event(0)
	a.Scan()
	s.scans(t, a)
}

// Keys that wait for a second check do not delay a scan, whether they are due soon or from the
// scan's first pages.
func TestScanDoesNotWaitForSecondChecks(t *testing.T) {
	s := &restless{timers: []string{"app1:a:b:1", "app1:a:b:2", "app1:a:b:3"}, strays: []string{"app1:a:b:soon"}, event: func(int) {}}
	a := NewAdopter(AdopterOptions{Store: unanswered{s}, Routes: adoptingTable(t), Space: keys.Space{Namespace: "notifier", Shards: 1},
		MaxBody: 1 << 10, Confirm: time.Hour, Logger: zaptest.NewLogger(t)})
	a.Scan()
	s.scans(t, a)
	if len(a.second) != 4 {
		t.Errorf("%v are to be looked at again", a.second)
	}
}

// unanswered is a store in which each timer holds a number, and no event has said yet whether it is a
// payload.
type unanswered struct{ *restless }

func (unanswered) Peek(_ context.Context, _ keys.Partition, ks []string, _ int64) (time.Time, []Seen, int, error) {
	var seen []Seen
	for _, k := range ks {
		w := Seen{Key: k, Value: []byte("1"), Length: 1, Expire: time.Now().Add(time.Hour).UnixMilli()}
		w.Found = store.Found{Notice: &notice.Notice{Key: k, Due: time.Now().Add(2 * time.Hour)}, State: notice.Scheduled}
		seen = append(seen, w)
	}
	return time.Now(), seen, len(ks), nil
}
