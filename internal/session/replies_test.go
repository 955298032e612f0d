package session

import (
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
	"notifier/internal/wire/wiretest"
)

// FuzzReplies checks that every reply of Redis leads to an error or a result.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{200, 2, 0, 5, 0, 1})
	f.Add([]byte{200, 5, 0, 5, 0, 0, 100, 6, 100, 13, 100, 16})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx := t.Context()
		c, a := wiretest.Answers(t, b)
		s := &Store{wire.New(wire.Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}})}
		for _, call := range []func() error{
			func() error { return s.BeginSession(ctx, "c", "l", "x", time.Second) },
			func() error { return s.DropLink(ctx, "c", "l") },
			func() error { _, err := s.CountResend(ctx, "l"); return err },
		} {
			a.Rest = b
			_ = call() // an error is as good as an answer
		}
	})
}
