package wire

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// KeySize is the length of the key and of derived keys, in bytes.
const KeySize = 32

// Purpose names the use of a derived key. If the format of the texts made with it changes, its number changes
// too.
type Purpose string

// The purposes.
const (
	ForCursors  Purpose = "notifier cursors 1"  // cursors of listings
	ForSessions Purpose = "notifier sessions 1" // sessions of users of the pages
	ForLinks    Purpose = "notifier links 1"    // links to the pages, for merchants
)

// ErrKeyUnreadable is wrapped by the errors of Derive.
var ErrKeyUnreadable = errors.New("the service's key cannot be read")

// KeyRing derives keys from the service's key.
type KeyRing struct {
	read func(ctx context.Context) ([]byte, error)
}

// NewKeyRing returns a Ring of the key that read returns. It calls read for each use.
func NewKeyRing(read func(ctx context.Context) ([]byte, error)) *KeyRing { return &KeyRing{read} }

// FixedKey returns a Ring of a configured key.
func FixedKey(key []byte) *KeyRing {
	return NewKeyRing(func(context.Context) ([]byte, error) { return key, nil })
}

// Derive returns the key of a purpose.
func (r *KeyRing) Derive(ctx context.Context, p Purpose) ([]byte, error) {
	key, err := r.read(ctx)
	if err == nil && len(key) != KeySize {
		err = fmt.Errorf("the key has %d bytes, want %d", len(key), KeySize)
	}

	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyUnreadable, err)
	}

	return hkdf.Expand(sha256.New, key, string(p), KeySize)
}
