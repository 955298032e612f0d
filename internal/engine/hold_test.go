package engine

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Redis took all leases for lapsed while the handlers ran: its clock went ahead,
// as with a failover to a machine whose clock is, or it forgot the claims. This
// instance claims the notices again, and knows that it works on them.
func TestWhatIsInHandIsNotHandledASecondTime(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx := context.Background()
	const n = 20
	g := newGot(2 * n)
	goOn := make(chan struct{})
	g.reply = func(*notice.Notice) notice.Result {
		<-goOn
		return notice.DeliveredResult(200)
	}
	r := testRoute("r", "app1")
	r.Timeout = time.Minute // the handlers wait for all claims
	w := start(t, srv, g, nil, r)
	defer w.stop()
	for i := range n {
		if _, err := w.Schedule(ctx, store.Request{Key: key(i)}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all begun", func() bool {
		all := 0
		for i := range n {
			all += g.times(key(i))
		}
		return all == n
	})
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
	first := map[string]string{}
	for i := range n {
		first[key(i)] = srv.Client().Get(ctx, space.ClaimPrefix(0)+key(i)).Val()
		srv.Client().Del(ctx, space.ClaimPrefix(0)+key(i))
		srv.Client().ZAdd(ctx, space.Shadow(keys.Partition{Prefix: "app1"}),
			redis.Z{Score: float64(time.Now().Add(-time.Second).UnixMilli()) + 1.0/1024, Member: key(i)})
	}
	for i := range n {
		eventually(t, "another claim", func() bool {
			now := srv.Client().Get(ctx, space.ClaimPrefix(0)+key(i)).Val()
			return now != "" && now != first[key(i)]
		})
	}
	close(goOn)
	for i := range n {
		f := w.until(t, key(i), notice.Delivered)
		if g.times(key(i)) != 1 || f.AttemptsMade != 1 {
			t.Errorf("%s was handled %d times in %d attempts", key(i), g.times(key(i)), f.AttemptsMade)
		}
	}
	eventually(t, "all slots come free", func() bool { return w.dispatch.InFlight("app1") == 0 })
}
