package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"

	"notifier/internal/route"
)

// The lengths a signing key may have, in bytes, after Standard Webhooks.
const (
	minSecret = 24
	maxSecret = 64
)

const secretPrefix = "whsec_"

// ParseSecrets reads one or several comma-separated whsec_ secrets. Its errors
// count secrets and never quote them.
func ParseSecrets(s string) ([]route.Secret, error) {
	want := fmt.Sprintf("want whsec_ and the base64 of %d to %d random bytes", minSecret, maxSecret)
	if strings.TrimSpace(s) == "" {
		return nil, errors.New("an empty secret; " + want)
	}
	var out []route.Secret
	for i, part := range splitList(s) {
		enc, ok := strings.CutPrefix(part, secretPrefix)
		if !ok {
			return nil, fmt.Errorf("secret %d does not begin with whsec_; %s", i+1, want)
		}
		// The error of the decoder would tell a position and so a byte: dropped.
		key, err := base64.StdEncoding.DecodeString(enc)
		if err != nil {
			key, err = base64.RawStdEncoding.DecodeString(enc)
		}
		if err != nil {
			return nil, fmt.Errorf("secret %d is not valid base64 after whsec_; %s", i+1, want)
		}
		if len(key) < minSecret || len(key) > maxSecret {
			return nil, fmt.Errorf("secret %d has %d bytes; %s", i+1, len(key), want)
		}
		out = append(out, key)
	}
	return out, nil
}

func splitList(s string) []string {
	var out []string
	for p := range strings.SplitSeq(s, ",") {
		out = append(out, strings.TrimSpace(p))
	}
	return out
}

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
