package audit

import (
	"testing"

	"notifier/internal/wire"
	"notifier/internal/wire/wiretest"
)

func FuzzReplies(f *testing.F) {
	wiretest.FuzzReplies(f, func(t *testing.T, w *wire.Client, _ *wiretest.Replies) []func() error {
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
