package keys

import (
	"crypto/sha1"
	"encoding/binary"
)

// DigestSize is the length of a [Digest] in bytes.
const DigestSize = 4 + 8

// AppendDigest appends the digest of a notice key to b. The digest identifies the key in a tombstone, the short record
// that remains of a removed notice. Its 12 bytes are:
//
//	4 bytes  the hash that selects the shard of the key, so that a reshard can move the tombstone
//	8 bytes  the start of the key's SHA-1
func AppendDigest(b []byte, key string) []byte {
	b = binary.BigEndian.AppendUint32(b, folded(key))
	sum := sha1.Sum([]byte(key))
	return append(b, sum[:DigestSize-4]...)
}

// ShardOfDigest is the shard of the key that has a digest; -1 if it is none.
func (s Space) ShardOfDigest(digest string) int {
	if len(digest) != DigestSize {
		return -1
	}

	l := s.at()
	if l.shards <= 1 {
		return len(l.former)
	}

	return len(l.former) + int(binary.BigEndian.Uint32([]byte(digest))%uint32(l.shards))
}
