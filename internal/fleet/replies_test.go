package fleet

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func FuzzReplies(f *testing.F) {
	testkit.FuzzReplies(f, func(t *testing.T, c *redis.Client, a *testkit.Replies) []func() error {
		w := wire.New(wire.Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}})
		ctx, s := t.Context(), NewStore(store.NewLayout(w, store.LayoutOptions{}))
		a.Learning = []string{"app1"}
		if err := s.l.Learn(ctx); err != nil {
			t.Fatal(err)
		}
		return []func() error{
			func() error { _, err := s.Publish(ctx, Heartbeat{ID: "i", Ask: []string{"j"}}); return err },
			func() error { _, err := s.DeclareDead(ctx, LastHeartbeat{ID: "j", score: "1"}, "i"); return err },
			func() error { _, err := s.Serve(ctx, "i", []string{"app1"}, time.Second); return err },
		}
	})
}
