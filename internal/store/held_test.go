package store

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

const pausedHost = "host/old.example/"

// hold schedules a notice that is due now, claims it and lists it as held by a pause of old.example for that time.
func (s *Store) hold(t *testing.T, key string, after time.Duration) Found {
	t.Helper()
	s.put(t, Request{Key: key, Content: notice.Content{URL: "https://old.example/a", Headers: []notice.Header{{Name: "X-A", Value: "1"}}}})
	s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndPostponed, After: after, Held: notice.HeldPaused, KeepRecord: true,
		Pause: pausedHost})
	f, err := s.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// holds fails unless exactly these notices of a partition are listed as held by the pause of old.example, with their scores.
func (s *Store) holds(t *testing.T, c redis.UniversalClient, p keys.Partition, want ...string) {
	t.Helper()
	listed, by := c.ZRange(t.Context(), s.space.Held(p), 0, -1).Val(), c.HGetAll(t.Context(), s.space.Holds(p)).Val()
	for i := range want {
		score := c.ZScore(t.Context(), s.space.Shadow(p), want[i]).Val()
		if w := strconv.FormatFloat(score, 'g', 17, 64) + " " + pausedHost; by[want[i]] != w {
			t.Errorf("%s is held by %q, want %q", want[i], by[want[i]], w)
		}
		want[i] = pausedHost + " " + want[i]
	}
	if !slices.Equal(listed, want) || len(by) != len(want) {
		t.Errorf("held are %q and %q, want %q", listed, by, want)
	}
}

// A held notice whose url or headers change is due now. Its due time, attempts, cause of waiting and position in its sequence
// stay. A held notice whose change is refused stays held.
func TestReaddressReleasesHeldNotice(t *testing.T) {
	t.Parallel()
	for _, is := range []struct {
		name    string
		ordered bool
		change  notice.Address
	}{
		{"url", false, notice.Address{URL: "https://new.example/b"}},
		{"headers", false, notice.Address{URL: "https://old.example/a", Headers: []notice.Header{{Name: "X-A", Value: "2"}},
			SetHeaders: true}},
		{"url of an ordered notice", true, notice.Address{URL: "https://new.example/b"}},
	} {
		t.Run(is.name, func(t *testing.T) {
			t.Parallel()
			s, srv := open(t)
			ctx, c := t.Context(), srv.Client()
			if is.ordered {
				if err := s.ordered(ctx, c, false); err != nil {
					t.Fatal(err)
				}
			}
			const key, other = "app1:a:b:1", "app1:a:b:2"
			f := s.hold(t, key, time.Hour)
			s.hold(t, other, time.Hour)
			before, err := s.sequences(ctx, c, partition)
			if err != nil {
				t.Fatal(err)
			}

			stale := f
			stale.record += " "
			if got, err := s.Readdress(ctx, stale, f.Readdress(is.change), nil); err != nil || got.Done {
				t.Fatalf("a change of another record: %+v, %v", got, err)
			}
			s.holds(t, c, partition, key, other)

			sub := c.Subscribe(ctx, s.space.Wake())
			defer func() { _ = sub.Close() }()
			if _, err := sub.Receive(ctx); err != nil {
				t.Fatal(err)
			}
			got, err := s.Readdress(ctx, f, f.Readdress(is.change), nil)
			if err != nil || !got.Done || got.State != notice.Scheduled || !got.Due.Equal(f.Due) || got.AttemptsMade != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			s.holds(t, c, partition, other)
			if m, err := sub.ReceiveTimeout(ctx, 10*time.Second); err != nil {
				t.Errorf("no wake message: %v, %v", m, err)
			}
			after, err := s.sequences(ctx, c, partition)
			if err != nil || !slices.Equal(after.members, before.members) {
				t.Errorf("the sequences were %q, are %q, %v", before.members, after.members, err)
			}
			if claim := s.take(t, key, "t2"); claim.Held != notice.HeldPaused || claim.NextAttempt() != 1 || claim.URL != is.change.URL {
				t.Errorf("claimed as %s, attempt %d, %s", claim.Held, claim.NextAttempt(), claim.URL)
			}
		})
	}
}
