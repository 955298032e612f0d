package auth

import (
	"testing"
	"time"

	"notifier/internal/wire"
	"notifier/internal/wire/wiretest"
)

func FuzzReplies(f *testing.F) {
	wiretest.FuzzReplies(f, func(t *testing.T, w *wire.Client, _ *wiretest.Replies) []func() error {
		ctx, s := t.Context(), &SessionStore{w}
		return []func() error{
			func() error { return s.BeginSession(ctx, "c", "l", "x", time.Second) },
			func() error { return s.DropLink(ctx, "c", "l") },
			func() error { _, err := s.CountResend(ctx, "l"); return err },
		}
	})
}
