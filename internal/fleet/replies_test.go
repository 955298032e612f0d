package fleet

import (
	"testing"
	"time"

	"notifier/internal/store"
	"notifier/internal/wire"
	"notifier/internal/wire/wiretest"
)

func FuzzReplies(f *testing.F) {
	wiretest.FuzzReplies(f, func(t *testing.T, w *wire.Client, a *wiretest.Replies) []func() error {
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
