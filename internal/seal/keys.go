package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"strings"
	"sync"
)

// idSize is the number of random bytes of a key's id, idLength their length in base64.
const idSize, idLength = 12, 16

// DataKey seals the texts of one subject.
type DataKey struct {
	ID     string
	secret []byte
}

// DigestKey makes the digests of one subject.
type DigestKey struct {
	ID     string
	secret []byte
	macs   sync.Pool // of hash.Hash, because a new HMAC takes longer than a digest
}

// NewDataKey returns a random data key.
func NewDataKey() *DataKey { return &DataKey{newID(), random(KeySize)} }

// NewDigestKey returns a random digest key.
func NewDigestKey() *DigestKey { return newDigestKey(newID(), random(KeySize)) }

func newDigestKey(id string, secret []byte) *DigestKey {
	d := &DigestKey{ID: id, secret: secret}
	d.macs.New = func() any { return hmac.New(sha256.New, secret) }
	return d
}

func newID() string { return encoding.EncodeToString(random(idSize)) }

// IsKeyID reports whether a text has the form of the id of a data key or digest key.
func IsKeyID(s string) bool {
	if len(s) != idLength || strings.ContainsAny(s, "\r\n") {
		return false
	}

	_, err := encoding.DecodeString(s)
	return err == nil
}

// String returns the key without its secret.
func (d *DataKey) String() string { return "data key " + d.ID }

// GoString keeps the secret out of %#v.
func (d *DataKey) GoString() string { return d.String() }

// String returns the key without its secret.
func (d *DigestKey) String() string { return "digest key " + d.ID }

// GoString keeps the secret out of %#v.
func (d *DigestKey) GoString() string { return d.String() }

// digestSize is the length of a digest in bytes.
const digestSize = 16

// Digest returns a text that is the same for the same content of the same notice key, and reveals nothing about the
// content to a reader without the digest key.
func (d *DigestKey) Digest(space, key string, content []byte) (string, error) {
	if strings.Contains(space, "\n") || strings.Contains(key, "\n") {
		return "", errPlace
	}

	h, _ := d.macs.Get().(hash.Hash)
	defer d.macs.Put(h)
	h.Reset()
	h.Write([]byte(version + "\ndigest\n" + space + "\n" + d.ID + "\n" + key + "\n"))
	h.Write(content)
	var sum [sha256.Size]byte
	return encoding.EncodeToString(h.Sum(sum[:0])[:digestSize]), nil
}
