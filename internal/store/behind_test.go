package store

import (
	"errors"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// A notice with an earlier position takes the first place while another one is in flight. It waits for the outcome of
// that one, whoever holds its claim by then, and starts at once after it.
func TestNewHeadWaitsForNoticeInFlight(t *testing.T) {
	const first, second = "app1:shop:created:O1", "app1:shop:paid:O1"
	for name, change := range map[string]func(t *testing.T, s *Store, c Claim) Claim{
		"unchanged": func(_ *testing.T, _ *Store, c Claim) Claim { return c },
		"taken over": func(t *testing.T, s *Store, _ Claim) Claim {
			got, err := s.TakeOver(t.Context(), partition, Lease{"b-1", lease}, TakeOverOptions{Holder: "a", Longest: lease, Limit: 9})
			if err != nil || len(got.Won) != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			return got.Won[0]
		},
		"claimed again": func(t *testing.T, s *Store, _ Claim) Claim {
			got, err := s.ClaimKeys(t.Context(), partition, Lease{"a-1", 2 * lease}, []string{second})
			if err != nil || len(got.Won) != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			return got.Won[0]
		},
		"handed over": func(t *testing.T, s *Store, c Claim) Claim {
			c.AwaitsReport = true
			c.Add(notice.Attempt{Number: c.AttemptsMade + 1, At: time.Now()})
			s.end(t, Settlement{Claim: c, Ending: EndHanded, After: 2 * lease})
			f, err := s.Find(t.Context(), prefix, second)
			if err != nil {
				t.Fatal(err)
			}
			f.AwaitsReport = false
			return Reported(f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, srv := open(t)
			ctx, c := t.Context(), srv.Client()
			if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, c, false)); err != nil {
				t.Fatal(err)
			}
			s.put(t, Request{Key: second})
			claim := s.take(t, second, "a-1")
			early := Letter{Notice: &notice.Notice{Key: first, Route: prefix, Due: time.UnixMilli(1_700_000_000_000),
				Made: notice.MadeAt(time.Now())}}
			if _, err := s.Restore(ctx, partition, []Letter{early}); err != nil {
				t.Fatal(err)
			}

			claim = change(t, s, claim)

			if got, err := s.ClaimKeys(ctx, partition, Lease{"c-1", lease}, []string{first}); err != nil || got.Parked != 1 {
				t.Fatalf("while %s is in flight: %+v, %v", second, got, err)
			}
			is, err := testkit.ReadSequences(ctx, c, s.space.Base(0), prefix)
			left := c.PTTL(ctx, s.space.ClaimPrefix(0)+second).Val()
			if ends := time.Duration(is.Left[keys.OrderKey(second)]) * time.Millisecond; err != nil || (ends-left).Abs() > lease/2 {
				t.Errorf("the claim ends in %s, the marker in %s, %v", left, ends, err)
			}
			if got := s.end(t, Settlement{Claim: claim, Ending: EndDelivered}); got.Stale || !got.Woke {
				t.Fatalf("the settle: %+v", got)
			}
			if s.end(t, Settlement{Claim: s.take(t, first, "c-1"), Ending: EndDelivered}).Woke {
				t.Error("a settle has woken a notice, and none waits")
			}
		})
	}
}
