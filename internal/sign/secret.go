package sign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Secret is a key of the HMAC schemes. It prints as dots.
type Secret struct {
	key  []byte
	text string // whsec_ and base64, as configured
}

const dots = "•••"

func (Secret) String() string   { return dots }
func (Secret) GoString() string { return dots }

// MarshalText keeps a secret out of JSON and logs.
func (Secret) MarshalText() ([]byte, error) { return []byte(dots), nil }

// SecretOf makes a secret of its bytes.
func SecretOf(key []byte) Secret {
	return Secret{key: key, text: "whsec_" + base64.StdEncoding.EncodeToString(key)}
}

// Bytes returns the key of the scheme standard.
func (s Secret) Bytes() []byte { return s.key }

// Reveal returns the secret in the form for a receiver: whsec_ and base64, as configured.
func (s Secret) Reveal() string { return s.text }

// The lengths a secret may have, in bytes, after Standard Webhooks.
const (
	minSecret = 24
	maxSecret = 64
)

var wantSecret = fmt.Sprintf("want whsec_ and the base64 of %d to %d random bytes, several comma-separated; %s", minSecret, maxSecret,
	makeSecret)

// makeSecret is a command that prints a secret.
const makeSecret = "echo whsec_$(openssl rand -base64 32) makes one"

// ParseSecrets reads one or several comma-separated secrets: whsec_ and base64. Its errors
// count secrets and never quote them.
func ParseSecrets(s string) ([]Secret, error) {
	if strings.TrimSpace(s) == "" {
		return nil, errors.New("an empty secret; " + wantSecret)
	}

	var out []Secret
	for part := range strings.SplitSeq(s, ",") {
		n := len(out) + 1
		text := strings.TrimSpace(part)
		encoded, ok := strings.CutPrefix(text, "whsec_")
		if !ok {
			return nil, fmt.Errorf("secret %d does not begin with whsec_; %s", n, wantSecret)
		}

		key, ok := decode(encoded)
		if !ok {
			return nil, fmt.Errorf("secret %d is not base64 after whsec_; %s", n, wantSecret)
		}
		if len(key) < minSecret || len(key) > maxSecret {
			return nil, fmt.Errorf("secret %d has %d bytes; want %d to %d; %s", n, len(key), minSecret, maxSecret, makeSecret)
		}

		out = append(out, Secret{key, text})
	}

	return out, nil
}

// decode reads base64 with or without padding. The decoder's error contains a position,
// and so a part of the secret: it is dropped.
func decode(s string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		b, err = base64.RawStdEncoding.DecodeString(s)
	}

	return b, err == nil
}

// Per selects the keys of the HMAC schemes. A derived key belongs to one receiver, which can
// verify with it, but cannot forge callbacks to other receivers.
type Per string

// The values of Per.
const (
	PerRoute    Per = "route"    // the route's secrets themselves
	PerHost     Per = "host"     // keys derived for the host that is called
	PerAudience Per = "audience" // keys derived for the audience that the notice names
	// PerHostRoute signs with the host's keys and the route's secrets, to change over
	// from route to host receiver by receiver.
	PerHostRoute Per = "host,route"
)

// ParsePer reads route, host, audience and host,route.
func ParsePer(s string) (Per, error) {
	switch p := Per(s); p {
	case PerRoute, PerHost, PerAudience, PerHostRoute:
		return p, nil
	case "host, route", "route,host", "route, host":
		return PerHostRoute, nil
	}
	return "", errors.New("want route, host, audience or host,route")
}

// The labels before the subject of a derived key.
const (
	hostLabel     = "notifier host:"
	audienceLabel = "notifier audience:"
)

// label is the text that a receiver's key is derived from. It is empty if all receivers have the same key.
func (p Per) label(host, audience string) string {
	switch p {
	case PerHost, PerHostRoute:
		return hostLabel + host
	case PerAudience:
		return audienceLabel + audience
	case PerRoute:
	}
	return ""
}

// ForHost derives the secret of one host, given in the form of notice.Host.
func (s Secret) ForHost(host string) Secret { return s.derive(hostLabel + host) }

// ForAudience derives the secret of one audience.
func (s Secret) ForAudience(audience string) Secret { return s.derive(audienceLabel + audience) }

func (s Secret) derive(label string) Secret {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(label))
	return SecretOf(mac.Sum(nil))
}
