package audit

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func FuzzReplies(f *testing.F) {
	testkit.FuzzReplies(f, func(t *testing.T, c *redis.Client, _ *testkit.Replies) []func() error {
		w := wire.New(wire.Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}})
		ctx, s := t.Context(), &Store{w}
		return []func() error{
			func() error { return s.Audit(ctx, Entry{Action: Pause}) },
			func() error { return s.Tend(ctx, []string{"c"}) },
			func() error { _, err := s.RecordSettings(ctx, map[string]string{"orders": "d ack=1"}); return err },
			func() error { _, err := s.Changes(ctx); return err },
			func() error { _, err := s.Audited(ctx, Range{}, 10); return err },
		}
	})
}
