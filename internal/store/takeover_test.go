package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A take-over claims all notices of the dead instance in bounded calls, and none of other
// instances. Each counts one more expired lease, and later settles of the old holder are refused.
func TestTakeOverClaimsWhatTheDeadOneHeld(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	ctx := t.Context()
	var reqs []Request
	const due, held, others = 1500, 300, 50
	for i := range due {
		reqs = append(reqs, Request{Key: fmt.Sprintf("app1:a:b:later-%d", i), Delay: 2 * time.Second})
	}
	for _, r := range reqs {
		s.put(t, r)
	}
	hold := func(name, token string, n int) (list []Claim) {
		var names []string
		for i := range n {
			key := fmt.Sprintf("app1:a:b:%s-%d", name, i)
			s.put(t, Request{Key: key})
			names = append(names, key)
		}
		c, err := s.ClaimKeys(ctx, partition, Lease{token, lease}, names)
		if err != nil || len(c.Won) != n {
			t.Fatalf("%d of %d won, %v", len(c.Won), n, err)
		}
		return c.Won
	}
	dead := hold("dead", "aaaa-1", held)
	hold("alive", "aaaab-1", others) // an id that begins alike
	handed := s.take(t, s.put(t, Request{Key: "app1:a:b:handed"}).Key, "aaaa-2")
	handed.AttemptsMade++
	s.end(t, Settlement{Claim: handed, Ending: EndHanded, After: lease})

	won, from, calls := map[string]Claim{}, "", 0
	for {
		c, err := s.TakeOver(ctx, partition, Lease{fmt.Sprintf("bbbb-%d", calls), lease}, TakeOverOptions{Holder: "aaaa", Longest: lease,
			Limit: 64, From: from})
		if err != nil || len(c.Won) > 64 {
			t.Fatalf("%d won, %v", len(c.Won), err)
		}
		for _, w := range c.Won {
			if _, twice := won[w.Key]; twice || w.Lapses != 1 || w.Made == 0 {
				t.Errorf("%s: %d lapses, twice %t", w.Key, w.Lapses, twice)
			}
			won[w.Key] = w
		}
		calls++
		if from = c.Next; from == "" {
			break
		}
		if calls > 50 {
			t.Fatalf("no end: %s", from)
		}
	}
	if len(won) != held {
		t.Errorf("%d were taken over in %d calls, want the %d of the dead one", len(won), calls, held)
	}
	if left := leaseLeft(t, s, srv, dead[0].Key); left < lease-5*time.Second {
		t.Errorf("%s of the new lease are left, want all of it", left)
	}
	old := dead[0]
	if got := s.end(t, Settlement{Claim: old, Ending: EndDelivered}); !got.Stale {
		t.Error("the old holder's settle was taken")
	}
	// Nor when the new claim is not there any more.
	srv.Client().Del(ctx, s.space.ClaimPrefix(0)+dead[1].Key)
	if got := s.end(t, Settlement{Claim: dead[1], Ending: EndDelivered}); !got.Stale {
		t.Error("the old holder's settle was taken after the new claim had lapsed")
	}
	if got := s.end(t, Settlement{Claim: won[dead[1].Key], Ending: EndDelivered}); got.Stale {
		t.Error("the new holder's settle was refused, though no other claim was made since")
	}
	if got := s.end(t, Settlement{Claim: won[old.Key], Ending: EndDelivered}); got.Stale {
		t.Error("the new holder's settle was refused")
	}
}

// TestTakeOverPassesManyClaimsOfOneScore: more claims than one call looks at have one
// score, and the dead instance's are the last of them. Calls that stop at their limit begin
// again with the score's first claim; one that takes all it finds must not skip as many more.
func TestTakeOverPassesManyClaimsOfOneScore(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{100, 2000} {
		t.Run(fmt.Sprintf("%d a call", limit), func(t *testing.T) {
			t.Parallel()
			takeOverOneScore(t, limit)
		})
	}
}

func takeOverOneScore(t *testing.T, limit int) {
	s, srv := open(t)
	ctx := t.Context()
	at := float64(srv.Client().Time(ctx).Val().Add(lease-time.Second).UnixMilli()) + 1.0/1024
	const n = 2500
	pipe := srv.Client().Pipeline()
	for i := range n {
		key, token := fmt.Sprintf("app1:a:b:%04d", i), "alive-1"
		if i%2 == 1 || i > 2200 {
			token = "dead-1"
		}
		pipe.ZAdd(ctx, s.space.Shadow(partition), redis.Z{Score: at, Member: key})
		pipe.Set(ctx, s.space.ClaimPrefix(0)+key, token, lease)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}

	won, from := 0, ""
	for range 100 {
		c, err := s.TakeOver(ctx, partition, Lease{"me-1", lease}, TakeOverOptions{Holder: "dead", Longest: lease, Limit: limit, From: from})
		if err != nil {
			t.Fatal(err)
		}
		won += len(c.Won)
		if from = c.Next; from == "" {
			break
		}
	}
	if want := 1250 + (n-2200)/2 - 1; from != "" || won != want {
		t.Errorf("%d taken over, up to %q; want %d and the end", won, from, want)
	}
}
