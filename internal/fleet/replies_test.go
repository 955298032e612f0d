package fleet

import (
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
	"notifier/internal/wire/wiretest"
)

// FuzzReplies checks that every reply of Redis becomes a result or an error.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{200, 2, 0, 5, 0, 1})
	f.Add([]byte{200, 5, 0, 5, 0, 0, 100, 6, 100, 13, 100, 16})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx := t.Context()
		c, a := wiretest.Answers(t, b)
		w := wire.New(wire.Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}})
		s := NewStore(store.NewLayout(w, store.LayoutOptions{}))
		a.Learning = []string{"app1"}
		if err := s.l.Learn(ctx); err != nil {
			t.Fatal(err)
		}
		a.Learning = nil
		for _, call := range []func() error{
			func() error { _, err := s.Publish(ctx, Heartbeat{ID: "i", Ask: []string{"j"}}); return err },
			func() error { _, err := s.DeclareDead(ctx, LastHeartbeat{ID: "j", score: "1"}, "i"); return err },
			func() error { _, err := s.Serve(ctx, "i", []string{"app1"}, time.Second); return err },
		} {
			a.Rest = b
			_ = call() // an error is as good as an answer
		}
	})
}
