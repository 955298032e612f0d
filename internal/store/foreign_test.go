package store

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
)

// foreigners counts the keys that scripts have left alone.
type foreigners struct{ n int }

func (*foreigners) Failed(string, error)           {}
func (*foreigners) Finalized(int, int)             {}
func (*foreigners) Unconfirmed(string, int, error) {}
func (f *foreigners) ForeignKeys(_ string, n int)  { f.n += n }

// strangers are keys of other programs that have the name of a notice.
var strangers = map[string]struct {
	set     func(ctx context.Context, c *redis.Client, key string) error
	counted bool
}{
	"hash": {func(ctx context.Context, c *redis.Client, key string) error { return c.HSet(ctx, key, "paid", 1).Err() }, true},
	"string": {func(ctx context.Context, c *redis.Client, key string) error {
		return c.Set(ctx, key, "basket", 0).Err()
	}, true},
	"cached string": {func(ctx context.Context, c *redis.Client, key string) error {
		return c.Set(ctx, key, "basket", time.Hour).Err()
	}, true},
	"cached number": {func(ctx context.Context, c *redis.Client, key string) error {
		return c.Set(ctx, key, "42", time.Hour).Err()
	}, false},
	"number for good": {func(ctx context.Context, c *redis.Client, key string) error { return c.Set(ctx, key, "42", 0).Err() }, true},
}

// Without adoption, no change of a notice overwrites, deletes or moves a key of its name that is not its timer.
func TestKeysOfOtherProgramsStay(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	hour := time.Hour
	changes := map[string]struct {
		arms bool
		do   func(t *testing.T, s *Store)
	}{
		"schedule": {true, func(t *testing.T, s *Store) { s.put(t, Request{Key: key, Delay: hour}) }},
		"replace": {true, func(t *testing.T, s *Store) {
			s.put(t, Request{Key: key})
			s.put(t, Request{Key: key, Delay: hour, OnDuplicate: Replace})
		}},
		"retry": {true, func(t *testing.T, s *Store) {
			s.put(t, Request{Key: key})
			s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndRetry, After: hour})
		}},
		"reschedule": {true, func(t *testing.T, s *Store) {
			s.put(t, Request{Key: key})
			s.change(t, key, Reschedule, When{Delay: hour})
		}},
		"fire": {false, func(t *testing.T, s *Store) {
			s.put(t, Request{Key: key})
			s.change(t, key, Fire, When{})
		}},
		"redrive": {true, func(t *testing.T, s *Store) {
			s.put(t, Request{Key: key})
			s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndDead})
			s.change(t, key, Redrive, When{Delay: hour})
		}},
		"restore": {true, func(t *testing.T, s *Store) {
			n := &notice.Notice{Key: key, Route: prefix, Made: notice.MadeAt(time.Now()), Due: time.Now().Add(hour), Content: body("x")}
			if _, err := s.Restore(t.Context(), partition, []Letter{{Notice: n}}); err != nil {
				t.Fatal(err)
			}
		}},
		"cancel": {false, func(t *testing.T, s *Store) {
			s.put(t, Request{Key: key})
			s.change(t, key, Cancel, When{})
		}},
	}
	for name, stranger := range strangers {
		for op, change := range changes {
			t.Run(name+"/"+op, func(t *testing.T) {
				t.Parallel()
				s, srv := open(t)
				seen := &foreigners{}
				s.o.Observer, s.Timers.foreign = seen, seen.ForeignKeys
				c, ctx := srv.Client(), t.Context()
				if err := stranger.set(ctx, c, key); err != nil {
					t.Fatal(err)
				}
				before, expires := c.Dump(ctx, key).Val(), c.PExpireTime(ctx, key).Val()
				change.do(t, s)
				if c.Dump(ctx, key).Val() != before || c.PExpireTime(ctx, key).Val() != expires {
					t.Errorf("the key is %s with %s", c.Type(ctx, key), c.PExpireTime(ctx, key))
				}
				if want := change.arms && stranger.counted; (seen.n == 1) != want || seen.n > 1 {
					t.Errorf("%d foreign keys were counted, want %t", seen.n, want)
				}
				if score, err := c.ZScore(ctx, s.space.Shadow(partition), key).Result(); err == nil && HasTimer(score) {
					t.Errorf("the score %f says that the notice has a timer", score)
				}
			})
		}
	}
}

// A notice's own timer is moved, deleted and written anew, whatever its value.
func TestOwnTimerFollowsItsNotice(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, srv := open(t)
	c, ctx := srv.Client(), t.Context()
	expires := func(want time.Time, value string) {
		t.Helper()
		if at := c.PExpireTime(ctx, key).Val(); at != time.Duration(want.UnixMilli()-1)*time.Millisecond || c.Get(ctx, key).Val() != value {
			t.Errorf("the timer is %q and expires at %s, want %q at %d", c.Get(ctx, key).Val(), at, value, want.UnixMilli()-1)
		}
	}
	r := s.put(t, Request{Key: key, Delay: time.Hour})
	expires(r.Due, "1")
	c.Set(ctx, key, "payload", redis.KeepTTL)
	moved := s.change(t, key, Reschedule, When{Delay: 2 * time.Hour})
	expires(moved.Due, "payload")
	r = s.put(t, Request{Key: key, Delay: 3 * time.Hour, OnDuplicate: Replace})
	expires(r.Due, "1")
	s.change(t, key, Cancel, When{})
	if n := c.Exists(ctx, key).Val(); n != 0 {
		t.Error("a cancelled notice has a timer")
	}
}

// change makes one change of a notice.
func (s *Store) change(t *testing.T, key string, op Amendment, when When) Change {
	t.Helper()
	c, err := s.Amend(t.Context(), prefix, key, op, when)
	if err != nil || !c.Done {
		t.Fatalf("%s %s: %+v, %v", op, key, c, err)
	}
	return c
}
