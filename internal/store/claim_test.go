package store

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
)

// leaseLeft returns the rest of a key's lease. The claim key's expiry and the score in the shadow
// must agree.
func leaseLeft(t *testing.T, s *Store, srv *testkit.Redis, key string) time.Duration {
	t.Helper()
	ctx := t.Context()
	left := srv.Client().PTTL(ctx, s.space.ClaimPrefix(0)+key).Val()
	score := srv.Client().ZScore(ctx, s.space.Shadow(partition), key).Val()
	now := srv.Client().Time(ctx).Val()
	if by := time.UnixMilli(int64(score)).Sub(now); by < left-time.Second || by > left+time.Second {
		t.Errorf("%s: %s left of the claim, %s by the shadow", key, left, by)
	}
	return left
}

// A repeated claim call returns the notices that it has claimed, with a new lease. So does Recover.
func TestAClaimThatMeetsItsOwnTokenHasWon(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	ctx := t.Context()
	const key, others = "app1:a:b:1", "app1:a:b:2"
	due := s.put(t, Request{Key: key}).Due
	s.put(t, Request{Key: others})
	s.take(t, others, "another")
	first := s.take(t, key, "mine")
	shorten := func() {
		t.Helper()
		now := srv.Client().Time(ctx).Val()
		frac := srv.Client().ZScore(ctx, s.space.Shadow(partition), key).Val()
		frac -= float64(int64(frac))
		srv.Client().PExpire(ctx, s.space.ClaimPrefix(0)+key, 2*time.Second)
		srv.Client().ZAdd(ctx, s.space.Shadow(partition), redis.Z{Score: float64(now.Add(2*time.Second).UnixMilli()) + frac, Member: key})
	}
	for range 2 {
		shorten()
		c, err := s.ClaimKeys(ctx, partition, Lease{"mine", lease}, []string{key, others})
		if err != nil || len(c.Won) != 1 || c.Lost != 0 || c.Stale != 1 || c.StaleKeys[0] != others {
			t.Fatalf("again: %+v, %v", c, err)
		}
		if won := c.Won[0]; won.Lapses != 0 || won.AttemptsMade != first.AttemptsMade || !won.Attention.Equal(due) || !won.SameAs(&first) {
			t.Errorf("again: %+v", won)
		}
		if left := leaseLeft(t, s, srv, key); left < lease-5*time.Second {
			t.Errorf("%s of the lease are left after the claim was made again, want all of it", left)
		}
	}
	shorten()
	c, err := s.Recover(ctx, partition, Lease{"mine", lease}, 10, lease)
	if err != nil || len(c.Won) != 1 {
		t.Fatalf("look: %+v, %v", c, err)
	}
	if left := leaseLeft(t, s, srv, key); left < lease-5*time.Second {
		t.Errorf("%s of the lease are left after it was found again, want all of it", left)
	}
	if got := s.end(t, Settlement{Claim: c.Won[0], Ending: EndDelivered}); got.Stale {
		t.Error("it cannot be settled")
	}
}

// A claim that lapsed once and is won again by its own token has lapsed once.
func TestAClaimMadeAgainKeepsItsLapses(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	ctx := t.Context()
	const key = "app1:a:b:1"
	s.put(t, Request{Key: key})
	s.take(t, key, "dead")
	srv.Client().Del(ctx, s.space.ClaimPrefix(0)+key)
	srv.Client().ZAdd(ctx, s.space.Shadow(partition), redis.Z{Score: float64(time.Now().Add(-time.Second).UnixMilli()) + 1.0/1024,
		Member: key})
	for i := range 3 {
		if c := s.take(t, key, "mine"); c.Lapses != 1 {
			t.Errorf("call %d: %d lapses, want 1", i, c.Lapses)
		}
	}
}
