package keyring

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Size of the key, and of those derived from it, in bytes.
const Size = 32

// Purpose names what a derived key is for. What is made with it changes its form
// only together with the number.
type Purpose string

// The purposes.
const (
	Cursors  Purpose = "notifier cursors 1"  // of listings
	Sessions Purpose = "notifier sessions 1" // of those who signed in to the pages
	Links    Purpose = "notifier links 1"    // to the pages, for merchants
)

// ErrUnreadable is what errors of Derive wrap.
var ErrUnreadable = errors.New("the service's key cannot be read")

// Ring derives keys.
type Ring struct {
	read func(ctx context.Context) ([]byte, error)
}

// New is a Ring of the key that read finds.
func New(read func(ctx context.Context) ([]byte, error)) *Ring { return &Ring{read} }

// Fixed is a Ring of a key that is known.
func Fixed(key []byte) *Ring {
	return New(func(context.Context) ([]byte, error) { return key, nil })
}

// Derive is the key of a purpose.
func (r *Ring) Derive(ctx context.Context, p Purpose) ([]byte, error) {
	key, err := r.read(ctx)
	if err == nil && len(key) != Size {
		err = fmt.Errorf("it has %d bytes, want %d", len(key), Size)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return hkdf.Expand(sha256.New, key, string(p), Size)
}
