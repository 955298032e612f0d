package move

import (
	"errors"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// FuzzReplies checks that a call returns for any reply of Redis.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{200, 6, 0, 1, 0, 1, 200, 2, 0, 0, 0, 1, 200, 2, 100, 6, 100, 9, 200, 2, 100, 6, 100, 8})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx := t.Context()
		c, a := testkit.Answers(t, b)
		s := On(store.New(store.Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}, Prefixes: []string{prefix}}))
		a.Learning = []string{prefix}
		if err := s.Layout.Learn(ctx); err != nil {
			t.Fatal(err)
		}
		a.Learning = nil
		const key = "app1:a:b:1"
		for _, call := range []func() error{
			func() error {
				p := keys.Partition{Prefix: prefix}
				m, _, err := s.Layout.TakeOut(ctx, store.Moving{From: p}, make([]any, 6), []string{key}, func(*store.LayoutView) bool { return true })
				if len(m.What)%2 != 0 {
					t.Errorf("a notice without its state is moving: %q", m.What)
				}
				_, arrived := s.imports(ctx, m)
				return errors.Join(err, arrived, s.Layout.MoveEnd(ctx, m, nil))
			},
			func() error { _, err := s.hold(ctx, "mine", time.Second); return err },
			func() error { return s.mark(ctx, s.Layout.Side(), 0, []string{key}) },
			func() error { return s.importTombs(ctx, tombs{0, "1", []string{"digest", "tombstone"}}) },
		} {
			a.Rest = b
			_ = call() // an error is fine too
		}
	})
}
