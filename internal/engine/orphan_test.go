package engine

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/client"
	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Notices under a prefix without a route could not be listed, so their keys were unknown.
func TestOrphansAreListedReadAndCancelled(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx := t.Context()
	before := startWith(t, srv, newSink(1), "app1", "app2")
	for _, key := range []string{"app1:m:t:1", "app2:m:t:1", "app2:m:t:2"} {
		if _, err := before.Schedule(ctx, store.Request{Key: key, Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	before.stop()
	after := startWith(t, srv, newSink(1), "app1")
	h := httptest.NewServer(api.New(api.Options{Engine: after.Engine, Routes: after.o.Routes, Clients: []auth.Client{
		{Name: "all", Token: "token-of-all", Role: auth.Admin}, {Name: "one", Token: "token-of-one", Prefix: "app1", Role: auth.Admin},
		{Name: "two", Token: "token-of-two", Prefix: "app2:m", Role: auth.Admin}}}))
	defer h.Close()
	as := func(token string) *client.Client {
		c, err := client.New(client.Options{URL: h.URL, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	for _, x := range []struct {
		token string
		q     client.Query
		want  int
	}{
		{"token-of-all", client.Query{}, 3}, {"token-of-all", client.Query{Prefix: "app2"}, 2}, {"token-of-all", client.Query{Route: "app2"}, 2},
		{"token-of-all", client.Query{State: client.Dead}, 0},
		{"token-of-two", client.Query{}, 2}, {"token-of-two", client.Query{Route: "app2"}, 2}, {"token-of-one", client.Query{}, 1},
	} {
		p, err := as(x.token).List(ctx, x.q)
		if err != nil || len(p.Items) != x.want {
			t.Errorf("%s lists %d with %+v, want %d: %v", x.token, len(p.Items), x.q, x.want, err)
		}
	}
	if _, err := as("token-of-one").List(ctx, client.Query{Route: "app2"}); !client.IsStatus(err, 404) {
		t.Errorf("another's prefix: %v", err)
	}
	if _, err := as("token-of-one").Cancel(ctx, "app2:m:t:1"); !client.IsStatus(err, 404) {
		t.Errorf("another's notice: %v", err)
	}
	n, err := as("token-of-two").Get(ctx, "app2:m:t:1")
	if err != nil || n.State != client.Scheduled || n.Route != "app2" {
		t.Errorf("%+v, %v", n, err)
	}
	// Pages go on through what no route has.
	seen, q := 0, client.Query{Limit: 1}
	for {
		p, err := as("token-of-all").List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(p.Items)
		if q.Cursor = p.Cursor; q.Cursor == "" {
			break
		}
	}
	if seen != 3 {
		t.Errorf("%d in pages of one, want 3", seen)
	}
	// Dead letters there are redriven together, as those of a route are.
	if fired, err := as("token-of-two").Fire(ctx, "app2:m:t:1"); err != nil || !fired.Changed {
		t.Fatalf("%+v, %v", fired, err)
	}
	c, err := after.Store().ClaimKeys(ctx, keys.Partition{Prefix: "app2"}, store.Lease{Token: "t", For: time.Minute}, []string{"app2:m:t:1"})
	if err != nil || len(c.Won) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	gone := store.Settlement{Claim: c.Won[0], Ending: store.EndDead}
	gone.Claim.Notice.Reason = notice.ReasonGone
	if out, err := after.Store().Settle(ctx, keys.Partition{Prefix: "app2"}, []store.Settlement{gone}); err != nil || out[0].Stale {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, x := range []struct {
		token string
		dry   bool
		want  int
	}{{"token-of-two", true, 0}, {"token-of-two", false, 1}, {"token-of-all", false, 0}} {
		r, err := as(x.token).RedriveRoute(ctx, "app2", client.Bulk{DryRun: x.dry})
		if err != nil || r.Redriven != x.want || r.Matched != map[bool]int{true: 1}[x.token == "token-of-two"] {
			t.Errorf("%+v: %+v, %v", x, r, err)
		}
	}
	if _, err := as("token-of-one").RedriveRoute(ctx, "app2", client.Bulk{DryRun: true}); !client.IsStatus(err, 404) {
		t.Errorf("another's prefix is redriven: %v", err)
	}
	for _, key := range []string{"app2:m:t:1", "app2:m:t:2"} {
		if n, err := as("token-of-two").Cancel(ctx, key); err != nil || !n.Changed {
			t.Errorf("%s: %+v, %v", key, n, err)
		}
	}
	after.tidy(t)
	eventually(t, "no orphan", func() bool { return after.janitor.Orphans() == 0 })
	if n, err := as("token-of-two").Get(ctx, "app2:m:t:1"); err != nil || n.State != client.Cancelled {
		t.Errorf("a settled notice can be read until its retention ends: %+v, %v", n, err)
	}
}

// The janitor of a configuration without the prefix counted a delivered notice as
// an orphan, and its retention never ended.
func TestWhatIsSettledUnderARemovedPrefixIsNoOrphanAndIsTrimmed(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx := t.Context()
	s := newSink(1)
	before := startWith(t, srv, s, "app1", "app2")
	if _, err := before.Schedule(ctx, store.Request{Key: "app2:m:t:1"}); err != nil {
		t.Fatal(err)
	}
	s.await(t, 1)
	eventually(t, "settled", func() bool {
		f, err := before.Find(ctx, "app2:m:t:1")
		return err == nil && f.State == notice.Delivered
	})
	before.stop()
	after := startWith(t, srv, s, "app1")
	if r := after.Ready(ctx); after.janitor.Orphans() != 0 || !r.Ready {
		t.Errorf("%d orphans; %+v", after.janitor.Orphans(), r)
	}
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
	if err := srv.Client().ZAddXX(ctx, space.Settled(keys.Partition{Prefix: "app2"}),
		redis.Z{Score: float64(time.Now().Add(-48 * time.Hour).UnixMilli()), Member: "app2:m:t:1"}).Err(); err != nil {
		t.Fatal(err)
	}
	after.tidy(t)
	if _, err := after.Find(ctx, "app2:m:t:1"); err == nil {
		t.Error("its retention never ends")
	}
}
