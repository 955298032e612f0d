package keyring

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
)

// maxSealed is the longest text that Open looks at.
const maxSealed = 2048

// ErrForeign is what Open says of a text that was not sealed for this purpose and
// what it is bound to, or by another key.
var ErrForeign = errors.New("not sealed here, or for something else")

// Seal encrypts a text for a purpose and binds it to what must be the same when it
// is opened. An empty one stays so.
func (r *Ring) Seal(ctx context.Context, p Purpose, text string, bound []byte) (string, error) {
	if text == "" {
		return "", nil
	}
	box, err := r.box(ctx, p)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(box.Seal(nil, nil, []byte(text), bound)), nil
}

// Open is the inverse.
func (r *Ring) Open(ctx context.Context, p Purpose, sealed string, bound []byte) (string, error) {
	if sealed == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(sealed) > maxSealed {
		return "", ErrForeign
	}
	box, err := r.box(ctx, p)
	if err != nil {
		return "", err
	}
	text, err := box.Open(nil, nil, raw, bound)
	if err != nil || len(text) == 0 {
		return "", ErrForeign
	}
	return string(text), nil
}

func (r *Ring) box(ctx context.Context, p Purpose) (cipher.AEAD, error) {
	key, err := r.Derive(ctx, p)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
