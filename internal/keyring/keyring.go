package keyring

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Size is the length of the key and of derived keys, in bytes.
const Size = 32

// Purpose names the use of a derived key. If the format of the texts made with it changes, its number changes
// too.
type Purpose string

// The purposes.
const (
	Cursors  Purpose = "notifier cursors 1"  // cursors of listings
	Sessions Purpose = "notifier sessions 1" // sessions of users of the pages
	Links    Purpose = "notifier links 1"    // links to the pages, for merchants
)

// ErrUnreadable is wrapped by the errors of Derive.
var ErrUnreadable = errors.New("the service's key cannot be read")

// Ring derives keys from the service's key.
type Ring struct {
	read func(ctx context.Context) ([]byte, error)
}

// New returns a Ring of the key that read returns. It calls read for each use.
func New(read func(ctx context.Context) ([]byte, error)) *Ring { return &Ring{read} }

// Fixed returns a Ring of a configured key.
func Fixed(key []byte) *Ring {
	return New(func(context.Context) ([]byte, error) { return key, nil })
}

// Derive returns the key of a purpose.
func (r *Ring) Derive(ctx context.Context, p Purpose) ([]byte, error) {
	key, err := r.read(ctx)
	if err == nil && len(key) != Size {
		err = fmt.Errorf("the key has %d bytes, want %d", len(key), Size)
	}

	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}

	return hkdf.Expand(sha256.New, key, string(p), Size)
}
