package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
)

// KeySize is the length of all keys in bytes.
const KeySize = 32

// version begins the additional data of everything that is sealed. A change of the format changes it.
const version = "notifier-seal-1"

// saltSize is the length of a content id, tagSize that of the authentication tag of AES-GCM.
const saltSize, tagSize = 16, 16

// ErrFormat means that a text is not of this package's format.
var ErrFormat = errors.New("not a sealed text")

// ErrForeign means that a text does not open: it was changed, or sealed with another key or for another place.
var ErrForeign = errors.New("the sealed text was changed, or sealed with another key or for another place")

// errPlace means that a part of the additional data contains a line break, which would make it ambiguous.
var errPlace = errors.New("a name that a sealed text is bound to contains a line break")

// encoding is that of all binary parts. Strict refuses other spellings of the same bytes.
var encoding = base64.RawURLEncoding.Strict()

// boundTo returns the additional data: the version, the names and the salt, one a line.
func boundTo(salt []byte, names []string) ([]byte, error) {
	n := len(version) + 1 + encoding.EncodedLen(len(salt))
	for _, name := range names {
		n += 1 + len(name)
	}

	b := append(make([]byte, 0, n), version...)
	for _, name := range names {
		if strings.Contains(name, "\n") {
			return nil, errPlace
		}

		b = append(append(b, '\n'), name...)
	}

	return encoding.AppendEncode(append(b, '\n'), salt), nil
}

// box returns the cipher for one text: its key is derived from the secret and the salt, for one use.
func box(secret, salt []byte, use string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, salt, use, KeySize)
	if err != nil {
		return nil, err
	}

	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}

	return cipher.NewGCM(block)
}

// nonce is zero, because each derived key encrypts one text only.
var nonce [12]byte

// encrypt returns salt, ciphertext and tag of a plain text in base64. names are bound to it; the first of them is its use.
func encrypt(secret, salt, plain []byte, names ...string) (string, error) {
	bound, err := boundTo(salt, names)
	if err != nil {
		return "", err
	}

	aead, err := box(secret, salt, names[0])
	if err != nil {
		return "", err
	}

	out := append(make([]byte, 0, saltSize+len(plain)+tagSize), salt...)
	return encoding.EncodeToString(aead.Seal(out, nonce[:], plain, bound)), nil
}

// decrypt returns the plain text of what encrypt has returned.
func decrypt(secret []byte, text string, names ...string) ([]byte, error) {
	raw, err := decode(text)
	if err != nil {
		return nil, err
	}

	salt := raw[:saltSize]
	bound, err := boundTo(salt, names)
	if err != nil {
		return nil, err
	}

	aead, err := box(secret, salt, names[0])
	if err != nil {
		return nil, err
	}

	plain, err := aead.Open(nil, nonce[:], raw[saltSize:], bound)
	if err != nil {
		return nil, ErrForeign
	}

	return plain, nil
}

// decode returns the bytes of a text's binary part.
func decode(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") { // the decoder would skip them
		return nil, ErrFormat
	}

	raw, err := encoding.DecodeString(text)
	if err != nil || len(raw) < saltSize+tagSize {
		return nil, ErrFormat
	}

	return raw, nil
}

// random returns n random bytes.
func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return b
}
