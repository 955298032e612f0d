package audit

import (
	"testing"

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
			func() error { return s.Audit(ctx, Entry{Action: Pause}) },
			func() error { return s.Tend(ctx, []string{"c"}) },
			func() error { _, err := s.RecordSettings(ctx, map[string]string{"orders": "d ack=1"}); return err },
			func() error { _, err := s.Changes(ctx); return err },
			func() error { _, err := s.Audited(ctx, Range{}, 10); return err },
		} {
			a.Rest = b
			_ = call() // an error is as good as an answer
		}
	})
}
