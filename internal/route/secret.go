package route

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Secret is a signing key. It prints as dots.
type Secret []byte

func (Secret) String() string   { return "•••" }
func (Secret) GoString() string { return "•••" }

// MarshalText keeps a secret out of JSON and logs.
func (Secret) MarshalText() ([]byte, error) { return []byte("•••"), nil }

// The lengths a signing key may have, in bytes, after Standard Webhooks.
const (
	minSecret = 24
	maxSecret = 64
)

// Check reports whether a secret can sign.
func (s Secret) Check() error {
	if len(s) < minSecret || len(s) > maxSecret {
		return fmt.Errorf("has %d bytes; want %d to %d", len(s), minSecret, maxSecret)
	}
	return nil
}

var wantSecret = fmt.Sprintf("want whsec_ and the base64 of %d to %d random bytes, several comma-separated; %s", minSecret, maxSecret, makeSecret)

// makeSecret is a command that prints a secret.
const makeSecret = "echo whsec_$(openssl rand -base64 32) makes one"

// ParseSecrets reads one or several comma-separated signing keys as they are
// exchanged: whsec_ and base64. Its errors count secrets and never quote them.
func ParseSecrets(s string) ([]Secret, error) {
	if strings.TrimSpace(s) == "" {
		return nil, errors.New("an empty secret; " + wantSecret)
	}
	var out []Secret
	for part := range strings.SplitSeq(s, ",") {
		n := len(out) + 1
		enc, ok := strings.CutPrefix(strings.TrimSpace(part), "whsec_")
		if !ok {
			return nil, fmt.Errorf("secret %d does not begin with whsec_; %s", n, wantSecret)
		}
		// The error of the decoder would tell a position and so a byte: dropped.
		key, err := base64.StdEncoding.DecodeString(enc)
		if err != nil {
			key, err = base64.RawStdEncoding.DecodeString(enc)
		}
		if err != nil {
			return nil, fmt.Errorf("secret %d is not base64 after whsec_; %s", n, wantSecret)
		}
		if err := Secret(key).Check(); err != nil {
			return nil, fmt.Errorf("secret %d %w; %s", n, err, makeSecret)
		}
		out = append(out, key)
	}
	return out, nil
}
