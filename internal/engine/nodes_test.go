package engine

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// A call that its caller gave up was carried out when its node went on, after the look
// that the node's coming back had brought, and nobody heard of it: the notice waited
// for the next idle look, up to 10 s.
func TestWhatANodeStillCarriesOutIsFoundSoonAfterItsReturn(t *testing.T) {
	t.Parallel()
	srv, c := oneNode(t)
	s := newSink(3)
	w := startCluster(t, srv, 1, func(*wire.Conn) dispatch.Handler {
		return s
	}, testRoute("r", "app1"))
	ctx := t.Context()
	put := func(key string) {
		w.put(t, 1, func(int) store.Request { return store.Request{Key: key} })
		s.await(t, 1)
	}
	put("app1:a:b:before")

	srv.Pause()
	eventually(t, "the node is away", func() bool { return len(w.o.Conn.Nodes.Away()) == 1 })
	srv.Unpause()
	eventually(t, "the node is back", func() bool { return len(w.o.Conn.Nodes.Away()) == 0 })
	back := time.Now() // the first idle look comes 10 s after the engine's begin
	put("app1:a:b:back")

	time.Sleep(3 * time.Second) // sleep: what looks because connections are made anew is over

	// What its script writes, without its wake.
	sp := keys.Space{Namespace: "notifier", Shards: 1}
	p := keys.Partition{Prefix: "app1", Shard: 0}
	const key = "app1:a:b:late"
	now := time.Now().UnixMilli()
	if _, err := c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HSet(ctx, sp.Records(p), key, `{"due":`+strconv.FormatInt(now, 10)+`,"made":`+strconv.FormatInt((now-1577836800000)*1000, 10)+`}`)
		tx.ZAdd(ctx, sp.Shadow(p), redis.Z{Score: float64(now), Member: key})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.await(t, 1)
	if took := time.Since(back); took > 8*time.Second {
		t.Errorf("it was found %s after the node's return, by the idle look", took)
	}
}
