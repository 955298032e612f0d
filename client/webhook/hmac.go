package webhook

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxSignatures is the maximum number of signatures of a header that are verified. It limits the cost of
// a request with many signatures.
const maxSignatures = 32

// sum returns the HMAC-SHA256 of head and body.
func sum(key []byte, head string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(head))
	mac.Write(body)
	return mac.Sum(nil)
}

// timestamp parses Unix seconds and checks that they are recent. The text is signed, so only the
// canonical form of a number is valid.
func (v *Verifier) timestamp(name, stamp string) (time.Time, error) {
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != stamp {
		return time.Time{}, fmt.Errorf("%w: %s is not a number of seconds", ErrHeader, name)
	}

	at := time.Unix(seconds, 0)
	return at, v.fresh(at)
}

// standard verifies v1 and v1a signatures of Standard Webhooks.
func (v *Verifier) standard(ctx context.Context, h http.Header, body []byte) (Result, error) {
	names := []string{"Webhook-Id", "Webhook-Timestamp", v.header}
	if own := strings.Split(v.header, "|"); len(own) == len(names) {
		names = own
	}

	id, err := one(h, names[0])
	if err != nil {
		return Result{}, err
	}

	stamp, err := one(h, names[1])
	if err != nil {
		return Result{}, err
	}

	given := strings.Join(h.Values(names[2]), " ")
	if given == "" {
		return Result{}, fmt.Errorf("%w: %s is missing", ErrHeader, strings.ToLower(names[2]))
	}

	at, err := v.timestamp(strings.ToLower(names[1]), stamp)
	if err != nil {
		return Result{}, err
	}

	head := id + "." + stamp + "."
	ok := false
	if v.scheme == Standard {
		ok = v.anySum(strings.Fields(given), head, body)
	} else if ok, err = v.ed25519(ctx, strings.Fields(given), head, body); err != nil {
		return Result{}, err
	}

	if !ok {
		return Result{}, ErrSignature
	}

	return Result{ID: id, At: at}, nil
}

// anySum reports whether one of the signatures is valid for one of the secrets. It always compares all
// of them, each in constant time. So its duration does not show which one was valid.
func (v *Verifier) anySum(given []string, head string, body []byte) bool {
	found := false
	for _, s := range v.secrets {
		want := []byte("v1," + base64.StdEncoding.EncodeToString(sum(s.key, head, body)))
		for _, g := range given[:min(len(given), maxSignatures)] {
			found = hmac.Equal([]byte(g), want) || found
		}
	}

	return found
}

// ed25519 reports whether one of the signatures is valid for one of the public keys.
func (v *Verifier) ed25519(ctx context.Context, given []string, head string, body []byte) (bool, error) {
	keys, err := v.keysFor(ctx, "", "OKP")
	if err != nil {
		return false, err
	}

	text := append([]byte(head), body...)
	for _, g := range given[:min(len(given), maxSignatures)] {
		encoded, ok := strings.CutPrefix(g, "v1a,")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil {
			continue
		}

		for _, k := range keys {
			if public, ok := k.key.(ed25519.PublicKey); ok && ed25519.Verify(public, text, signature) {
				return true, nil
			}
		}
	}

	return false, nil
}

// stripe verifies t=…,v1=… over "t.body".
func (v *Verifier) stripe(h http.Header, body []byte) (Result, error) {
	value, err := one(h, v.header)
	if err != nil {
		return Result{}, err
	}

	stamp, given := "", []string(nil)
	for part := range strings.SplitSeq(value, ",") {
		switch name, text, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			if stamp != "" {
				return Result{}, fmt.Errorf("%w: %s has two times", ErrHeader, strings.ToLower(v.header))
			}
			stamp = text
		case "v1":
			given = append(given, text)
		}
	}

	at, err := v.timestamp("t in "+strings.ToLower(v.header), stamp)
	if err != nil {
		return Result{}, err
	}
	if !v.anyHex(given, stamp+".", body) {
		return Result{}, ErrSignature
	}

	return Result{At: at}, nil
}

// github verifies sha256=… over the body.
func (v *Verifier) github(h http.Header, body []byte) (Result, error) {
	value, err := one(h, v.header)
	if err != nil {
		return Result{}, err
	}

	encoded, ok := strings.CutPrefix(value, "sha256=")
	if !ok {
		return Result{}, fmt.Errorf("%w: %s does not begin with sha256=", ErrHeader, strings.ToLower(v.header))
	}
	if !v.anyHex([]string{encoded}, "", body) {
		return Result{}, ErrSignature
	}

	return Result{}, nil
}

// anyHex is anySum for hex signatures whose keys are the texts of the secrets.
func (v *Verifier) anyHex(given []string, head string, body []byte) bool {
	found := false
	for _, s := range v.secrets {
		want := []byte(hex.EncodeToString(sum([]byte(s.text), head, body)))
		for _, g := range given[:min(len(given), maxSignatures)] {
			found = hmac.Equal([]byte(g), want) || found
		}
	}

	return found
}
