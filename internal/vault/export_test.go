package vault

import (
	"context"
	"time"

	"notifier/internal/seal"
)

// SetClock makes now the monotonic clock of a Vault.
func SetClock(v *Vault, now func() time.Time) { v.now = now }

// ForgetIn makes the first step of ForgetSubject in one shard.
func ForgetIn(ctx context.Context, v *Vault, shard int, of seal.Subject) error {
	m := newMarking(v.w)
	m.lifted = true
	return m.writeTo(ctx, shard, []mark{{of: of}})
}

// Create stores new keys of a subject, as the first Seal of it does.
func Create(ctx context.Context, v *Vault, shard int, of seal.Subject) error {
	_, err := v.create(ctx, shard, of)
	return err
}
