package auth

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func FuzzReplies(f *testing.F) {
	testkit.FuzzReplies(f, func(t *testing.T, c *redis.Client, _ *testkit.Replies) []func() error {
		w := wire.New(wire.Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}})
		ctx, s := t.Context(), &SessionStore{w}
		return []func() error{
			func() error { return s.BeginSession(ctx, "c", "l", "x", time.Second) },
			func() error { return s.DropLink(ctx, "c", "l") },
			func() error { _, err := s.CountResend(ctx, "l"); return err },
		}
	})
}
