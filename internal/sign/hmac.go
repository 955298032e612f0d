package sign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"iter"
	"strconv"
	"sync"
)

// macs computes the HMACs that sign a route's callbacks, with the route's secrets or with keys derived from them for
// one receiver.
type macs struct {
	per    Per
	text   bool         // the secrets' texts sign, not their bytes
	bytes  []*sync.Pool // by the secrets' bytes; derived keys are made with them
	routes []*sync.Pool // that sign for the route; the same as bytes unless text
}

func newMACs(s *Settings, text bool) *macs {
	// Creating an HMAC costs as much as hashing a small body, so those with a secret are pooled. Those with derived
	// keys are not: the pool would grow with every host that producers name.
	m := &macs{per: s.Per, text: text}
	for _, secret := range s.Secrets {
		m.bytes = append(m.bytes, pool(secret.key))
		if text {
			m.routes = append(m.routes, pool([]byte(secret.text)))
		}
	}

	if !text {
		m.routes = m.bytes
	}

	return m
}

func pool(key []byte) *sync.Pool {
	return &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}
}

// each yields the hashes that sign a message: those of the receiver's keys and then those
// of the route's secrets, each in the order of the secrets.
func (m *macs) each(msg *Message) iter.Seq[hash.Hash] {
	return func(yield func(hash.Hash) bool) {
		if label := m.per.label(msg.Host, msg.Audience); label != "" {
			for _, p := range m.bytes {
				if !yield(m.derived(p, label)) {
					return
				}
			}
		}

		if m.per == PerHost || m.per == PerAudience {
			return
		}

		for _, p := range m.routes {
			mac := p.Get().(hash.Hash)
			mac.Reset()
			more := yield(mac)
			p.Put(mac)
			if !more {
				return
			}
		}
	}
}

// derived is the hash with one receiver's key.
func (m *macs) derived(p *sync.Pool, label string) hash.Hash {
	mac := p.Get().(hash.Hash)
	mac.Reset()
	mac.Write([]byte(label))
	var key [sha256.Size]byte
	mac.Sum(key[:0])
	p.Put(mac)
	if m.text {
		return hmac.New(sha256.New, []byte(SecretOf(key[:]).text))
	}

	return hmac.New(sha256.New, key[:])
}

// standard is the scheme of Standard Webhooks.
type standard struct {
	*macs
	headers []string
}

func (s *standard) Sign(m *Message, out *Signed) error {
	head := idHead(m)
	value := make([]byte, 0, 2*len(s.bytes)*(len("v1, ")+base64.StdEncoding.EncodedLen(sha256.Size)))
	var sum [sha256.Size]byte

	for mac := range s.each(m) {
		mac.Write(head)
		mac.Write(out.Body)
		if len(value) > 0 {
			value = append(value, ' ')
		}

		value = base64.StdEncoding.AppendEncode(append(value, "v1,"...), mac.Sum(sum[:0]))
	}

	out.addStandard(s.headers, m, string(value))
	out.explain(m, Standard, head, out.Body)
	return nil
}

// idHead is "id.timestamp.", which the body follows.
func idHead(m *Message) []byte {
	head := make([]byte, 0, 64)
	head = append(append(head, m.ID...), '.')
	return append(strconv.AppendInt(head, m.At.Unix(), 10), '.')
}

// stripe is the scheme of Stripe.
type stripe struct {
	*macs
	header string
}

func (s *stripe) Sign(m *Message, out *Signed) error {
	head := append(strconv.AppendInt(make([]byte, 0, 16), m.At.Unix(), 10), '.')
	value := append([]byte("t="), head[:len(head)-1]...)
	var sum [sha256.Size]byte

	for mac := range s.each(m) {
		mac.Write(head)
		mac.Write(out.Body)
		value = hex.AppendEncode(append(value, ",v1="...), mac.Sum(sum[:0]))
	}

	out.add(s.header, string(value))
	out.explain(m, Stripe, head, out.Body)
	return nil
}

// github is the scheme of GitHub. Its header has room for one signature.
type github struct {
	*macs
	header string
}

func (s *github) Sign(m *Message, out *Signed) error {
	var sum [sha256.Size]byte
	for mac := range s.each(m) {
		mac.Write(out.Body)
		out.add(s.header, "sha256="+hex.EncodeToString(mac.Sum(sum[:0])))
		break
	}

	out.explain(m, GitHub, out.Body)
	return nil
}
