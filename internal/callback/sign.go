package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"
	"sync"
	"time"

	"notifier/internal/route"
)

// signer makes webhook-signature headers. The keyed hashes are pooled: keying
// one costs as much as hashing a small body.
type signer struct {
	macs []*sync.Pool
}

func newSigner(secrets []route.Secret) *signer {
	s := &signer{}
	for _, key := range secrets {
		s.macs = append(s.macs, &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }})
	}
	return s
}

// sign is the header's value, one v1 signature per secret in the order given;
// empty without secrets.
func (s *signer) sign(id string, at time.Time, body []byte) string {
	if len(s.macs) == 0 {
		return ""
	}
	head := make([]byte, 0, 64)
	head = append(append(head, id...), '.')
	head = append(strconv.AppendInt(head, at.Unix(), 10), '.')
	var sum [sha256.Size]byte
	out := make([]byte, 0, len(s.macs)*(len("v1, ")+base64.StdEncoding.EncodedLen(sha256.Size)))
	for i, pool := range s.macs {
		mac := pool.Get().(hash.Hash)
		mac.Reset()
		mac.Write(head)
		mac.Write(body)
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, "v1,"...)
		out = base64.StdEncoding.AppendEncode(out, mac.Sum(sum[:0]))
		pool.Put(mac)
	}
	return string(out)
}
