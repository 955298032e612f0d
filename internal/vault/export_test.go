package vault

import (
	"context"
	"strings"
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

// RenewIn makes the second step of a renewal in one shard, with the value of the subject's field that was read and the id of a new data
// key. It reports whether the key was stored.
func RenewIn(ctx context.Context, v *Vault, shard int, of seal.Subject, value, id string) (bool, error) {
	_, digest, _ := strings.Cut(value, " ")
	args := []any{string(of), value, id + " " + digest, id, string(of) + " w1:k:box"}
	n, err := v.w.Int(ctx, renewScript, []string{v.w.Space.Seals(shard)}, args)
	return n > 0, err
}

// StoredAs reads an answer of sealkey.lua.
func StoredAs(answer any) (string, error) { return storedAs(answer) }
