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

// signer makes webhook-signature headers. The hashes keyed by the route's own
// secrets are pooled: keying one costs as much as hashing a small body. Keys
// derived for a receiver are made anew each time: what is kept of them, a
// producer could make grow with every host it names.
type signer struct {
	per  route.SignPer
	macs []*sync.Pool
}

func newSigner(r *route.Route) *signer {
	s := &signer{per: r.Signs()}
	for _, key := range r.Secrets {
		s.macs = append(s.macs, &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }})
	}
	return s
}

// message is what is signed, and for whom.
type message struct {
	id       string
	at       time.Time
	body     []byte
	host     string // in the form of notice.Host
	audience string
}

// sign is the header's value: one v1 signature per secret in the order given,
// the receiver's before the route's where both are sent; empty without secrets.
func (s *signer) sign(m message) string {
	if len(s.macs) == 0 {
		return ""
	}
	head := make([]byte, 0, 64)
	head = append(append(head, m.id...), '.')
	head = append(strconv.AppendInt(head, m.at.Unix(), 10), '.')
	out := make([]byte, 0, 2*len(s.macs)*(len("v1, ")+base64.StdEncoding.EncodedLen(sha256.Size)))
	if label := s.label(m); label != "" {
		for _, pool := range s.macs {
			out = appendSignature(out, derived(pool, label), head, m.body)
		}
	}
	if s.per == route.SignPerRoute || s.per == route.SignPerHostRoute {
		for _, pool := range s.macs {
			mac := pool.Get().(hash.Hash)
			mac.Reset()
			out = appendSignature(out, mac, head, m.body)
			pool.Put(mac)
		}
	}
	return string(out)
}

// label is what the receiver's key is derived over; empty = none is.
func (s *signer) label(m message) string {
	switch s.per {
	case route.SignPerHost, route.SignPerHostRoute:
		return route.HostLabel + m.host
	case route.SignPerAudience:
		return route.AudienceLabel + m.audience
	case route.SignPerRoute:
	}
	return ""
}

// derived is the hash keyed by one receiver's key.
func derived(pool *sync.Pool, label string) hash.Hash {
	mac := pool.Get().(hash.Hash)
	mac.Reset()
	mac.Write([]byte(label))
	var key [sha256.Size]byte
	mac.Sum(key[:0])
	pool.Put(mac)
	return hmac.New(sha256.New, key[:])
}

func appendSignature(out []byte, mac hash.Hash, head, body []byte) []byte {
	mac.Write(head)
	mac.Write(body)
	if len(out) > 0 {
		out = append(out, ' ')
	}
	var sum [sha256.Size]byte
	return base64.StdEncoding.AppendEncode(append(out, "v1,"...), mac.Sum(sum[:0]))
}
