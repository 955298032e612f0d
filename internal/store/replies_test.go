package store

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// known reports whether an error is one that the API explains.
func known(err error) bool {
	if answer := redis.Error(nil); errors.As(err, &answer) && !errors.Is(err, redis.Nil) {
		return true // a script refuses
	}

	for _, k := range []error{wire.ErrUnavailable, wire.ErrUnconfirmed, ErrLayout, ErrNotFound, ErrSendAlone} {
		if errors.Is(err, k) {
			return true
		}
	}

	return false
}

// FuzzReplies checks that any reply of a script yields a result or an error. Another Redis, a proxy
// or a changed script may reply anything. A process that crashes on a reply would crash again at
// each start.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{200, 1, 0, 5})
	f.Add([]byte{200, 2, 0, 5, 0, 1})
	f.Add([]byte{200, 5, 0, 5, 0, 0, 100, 6, 100, 13, 100, 16})
	f.Add([]byte{200, 3, 0, 5, 200, 7, 100, 3, 0, 1, 0, 0, 100, 16, 100, 8, 100, 0, 100, 0})
	f.Add([]byte{200, 6, 0, 1, 0, 1, 200, 2, 0, 0, 0, 1, 200, 2, 100, 6, 100, 9, 200, 2, 100, 6, 100, 8})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx := t.Context()
		c, a := testkit.Answers(t, b)
		s := New(Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}, Prefixes: []string{prefix}, Retention: time.Hour,
			Retain: 10,
			Adopts: func(string) bool { return true }})
		a.Learning = []string{prefix, "app1:a"}
		if err := s.Layout.Learn(ctx); err != nil {
			t.Fatal(err)
		}
		a.Learning = nil
		const key = "app1:a:b:1"
		l := Lease{"mine", lease}
		n := notice.Notice{Key: key, Route: prefix, Made: notice.MadeAt(time.Now()), Due: time.Now()}
		end := Settlement{Claim: Claim{Notice: &n, token: "mine", score: "1", before: "1"}, Ending: EndRetry, After: time.Second}
		for _, call := range []func() error{
			func() error { _, err := s.Schedule(ctx, partition, []Request{{Key: key}}); return err },
			func() error { _, err := s.ClaimKeys(ctx, partition, l, []string{key}); return err },
			func() error { _, err := s.Sweep(ctx, partition, l, SweepOptions{Limit: 5}); return err },
			func() error { _, err := s.Recover(ctx, partition, l, 5, time.Second); return err },
			func() error {
				_, err := s.TakeOver(ctx, partition, l, TakeOverOptions{Holder: "i", Longest: lease, Limit: 5})
				return err
			},
			func() error { _, err := s.Settle(ctx, partition, []Settlement{end}); return err },
			func() error { _, err := s.Amend(ctx, prefix, key, Redrive, When{}); return err },
			func() error {
				_, err := s.Reopen(ctx, Found{Notice: &n}, end)
				return err
			},
			func() error { _, err := s.Find(ctx, prefix, key); return err },
			func() error { _, err := s.FindMany(ctx, partition, []string{key, "app1:a:b:2"}); return err },
			func() error {
				_, err := s.List(ctx, Query{Routes: []string{prefix}, State: notice.Scheduled, Limit: 3})
				return err
			},
			func() error {
				_, err := s.AmendAll(ctx, Bulk{Query: Query{Routes: []string{prefix}, Limit: 3}, Op: Redrive})
				return err
			},
			func() error { _, _, err := s.Counts(ctx, []string{prefix}); return err },
			func() error { _, err := s.Look(ctx, []Look{{Partition: partition, Limit: 3}}); return err },
			func() error { _, _, err := s.Trim(ctx, 0, []Trim{{Prefix: prefix}}, 5); return err },
			func() error { _, _, err := s.Forecast(ctx, prefix, time.Now(), time.Second, 3); return err },
			func() error { return s.Layout.Learn(ctx) },
			func() error {
				_, err := s.Restore(ctx, partition, []Letter{{&n, n.Due}, {&n, time.Time{}}})
				return err
			},
			func() error { _, _, err := s.AmendMany(ctx, Cancel, []Amended{{Prefix: prefix, Key: key}}); return err },
			func() error {
				_, err := s.Layout.SetSide(ctx, s.Layout.Side(), Side{State: SideLeaving, ID: "m", Other: "x"})
				return err
			},
		} {
			a.Rest = b
			if err := call(); err != nil && !known(err) {
				t.Errorf("%v, which is none of the errors that a caller knows", err)
			}
		}
	})
}
