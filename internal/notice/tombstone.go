package notice

import (
	"crypto/sha256"
	"encoding/binary"
)

// contentDigestSize is the length of a content's digest: with a Made of madeSize bytes a tombstone fits
// Redis's allocation class of 16.
const (
	contentDigestSize = 7
	madeSize          = 7
	tombstoneSize     = contentDigestSize + madeSize
)

// Tombstone replaces a finalized notice that was trimmed before its retention ended. It suffices to recognize
// a repetition of the schedule call that made the notice.
type Tombstone struct {
	Made    Made
	content ContentDigest
}

// Tombstone returns the tombstone of a notice.
func (n *Notice) Tombstone() Tombstone {
	t := Tombstone{Made: n.Made}
	if n.Raw == nil { // an unreadable record matches no content
		t.content = n.Content.digest()
	}

	return t
}

// Same reports whether the notice had the same content, as [Content.Diff] compares it.
func (t Tombstone) Same(c *Content) bool { return t.content == c.digest() }

// Append appends the tombstone as it is stored in Redis.
func (t Tombstone) Append(b []byte) []byte {
	made := binary.BigEndian.AppendUint64(nil, uint64(t.Made))
	return append(append(b, t.content[:]...), made[8-madeSize:]...)
}

// ParseTombstone parses the form that Append writes; ok is false for anything else.
func ParseTombstone(text string) (t Tombstone, ok bool) {
	if len(text) != tombstoneSize {
		return t, false
	}

	copy(t.content[:], text)
	var made [8]byte
	copy(made[8-madeSize:], text[contentDigestSize:])
	t.Made = Made(binary.BigEndian.Uint64(made[:]))
	return t, true
}

// digest returns the first bytes of the SHA-256 of all fields that Diff compares, as scheduled.
func (c *Content) digest() (d ContentDigest) {
	if c.Scheduled != nil {
		return c.Scheduled.Content
	}

	b := make([]byte, 0, 256+len(c.Body))
	field := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }

	field(c.URL)
	field(c.Audience)
	field(c.ContentType)
	field(method(c.Method))
	field(string(c.Body))

	for _, h := range c.Headers {
		field(h.Name)
		field(h.Value)
	}

	if c.Same != "" {
		b = append(b, "same"...)
		field(c.Same)
	}

	if c.Ladder != nil {
		b = append(b, "retry"...)
		field(c.Ladder.String())
	}

	if at := c.fixedExpiry(); !at.IsZero() {
		b = append(b, "expires"...)
		b = binary.AppendVarint(b, at.UnixMilli())
	}

	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	return d
}
