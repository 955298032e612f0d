package wire

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
)

// maxSealed is the longest text that Open accepts.
const maxSealed = 2048

// ErrForeignSeal means that a text was sealed with another key or for another purpose, is bound to other data, or
// was never sealed.
var ErrForeignSeal = errors.New("not sealed with this key, for this purpose and with the same bound data")

// Seal encrypts a text for a purpose, and binds it to data that must be given again to Open. An empty text
// stays empty.
func (r *KeyRing) Seal(ctx context.Context, p Purpose, text string, bound []byte) (string, error) {
	if text == "" {
		return "", nil
	}

	box, err := r.box(ctx, p)
	if err != nil {
		return "", err
	}

	return base64.RawURLEncoding.EncodeToString(box.Seal(nil, nil, []byte(text), bound)), nil
}

// Open decrypts a text that Seal has returned.
func (r *KeyRing) Open(ctx context.Context, p Purpose, sealed string, bound []byte) (string, error) {
	if sealed == "" {
		return "", nil
	}

	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(sealed) > maxSealed {
		return "", ErrForeignSeal
	}

	box, err := r.box(ctx, p)
	if err != nil {
		return "", err
	}

	text, err := box.Open(nil, nil, raw, bound)
	if err != nil || len(text) == 0 {
		return "", ErrForeignSeal
	}

	return string(text), nil
}

func (r *KeyRing) box(ctx context.Context, p Purpose) (cipher.AEAD, error) {
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
