package cli

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"notifier/client/webhook"
	"notifier/internal/sign"
)

// signatures verifies callbacks with each scheme of the route.
type signatures struct {
	schemes, secrets, keyFile, keySet, host, headers string

	all []scheme
}

// scheme is the verifier of one scheme.
type scheme struct {
	name     webhook.Scheme
	verifier *webhook.Verifier
}

// byKey lists the schemes with public keys. The others need secrets.
var byKey = []webhook.Scheme{webhook.StandardEd25519, webhook.WechatPay, webhook.Alipay, webhook.JWS}

func (s *signatures) flags(f *pflag.FlagSet) {
	f.StringVar(&s.schemes, "sign", string(webhook.Standard),
		"schemes to verify, comma-separated, as in the route's _SIGN; all must be valid")
	f.StringVar(&s.keyFile, "key-file", "", "file with the sender's public keys or certificates (PEM)")
	f.StringVar(&s.keySet, "key-set", "", "address of the sender's key set: https://…/.well-known/jwks.json")
	f.StringVar(&s.host, "host", "", "this receiver's host in the url, for jws")
	f.StringVar(&s.headers, "sign-header", "", "non-default names of signatures' headers, as in the route's _SIGN_HEADER")
}

// prepare creates the verifiers. Without secrets and keys nothing is verified, which is an error if asked is true: the
// command has --sign.
func (s *signatures) prepare(asked bool) error {
	headers, err := sign.ParseHeaders(s.headers, func(string) bool { return false })
	if s.headers != "" && err != nil {
		return usage("--sign-header: %w", err)
	}

	keys, err := s.keys()
	if err != nil {
		return err
	}

	switch {
	case s.secrets != "" || s.keyFile != "" || s.keySet != "":
	case asked:
		return usage("--sign %s: want RECEIVER_SECRET or --secret-file, or for a scheme with public keys --key-file or --key-set", s.schemes)
	default:
		return nil
	}

	for name := range strings.SplitSeq(s.schemes, ",") {
		o := webhook.Options{Scheme: webhook.Scheme(strings.TrimSpace(name)), Host: s.host}
		o.Header = headers[sign.Scheme(o.Scheme)]
		if slices.Contains(byKey, o.Scheme) {
			o.Keys, o.KeySet = keys.list, keys.set
		} else {
			o.Secrets = []string{s.secrets}
		}

		v, err := webhook.NewVerifier(o)
		if err != nil {
			return usage("--sign %s: %w", name, err)
		}

		s.all = append(s.all, scheme{o.Scheme, v})
	}

	return nil
}

// publicKeys are the keys of --key-file and --key-set.
type publicKeys struct {
	list []string
	set  *webhook.KeySet
}

func (s *signatures) keys() (k publicKeys, err error) {
	if s.keyFile != "" {
		raw, err := os.ReadFile(s.keyFile)
		if err != nil {
			return k, usage("--key-file: %w", err)
		}

		k.list = []string{strings.TrimSpace(string(raw))}
	}

	if s.keySet != "" {
		if k.set, err = webhook.NewKeySet(s.keySet, nil); err != nil {
			return k, usage("--key-set: %w", err)
		}
	}

	return k, nil
}

// verify returns a word for the signatures' state, and whether the callback may be accepted.
func (s *signatures) verify(ctx context.Context, h http.Header, payload []byte) (string, bool) {
	if len(s.all) == 0 {
		return "not verified", true
	}

	for _, one := range s.all {
		if _, err := one.verifier.Check(ctx, h, payload); err != nil {
			word := wrongBecause(err, h)
			if len(s.all) > 1 {
				word = string(one.name) + " " + word
			}

			return word, false
		}
	}

	return "right", true
}

// wrongBecause returns a word for an error of Check.
func wrongBecause(err error, h http.Header) string {
	switch {
	case errors.Is(err, webhook.ErrSignature):
		return "wrong"
	case errors.Is(err, webhook.ErrHeader) && h.Get("Webhook-Timestamp") == "" && h.Get("Webhook-Signature") != "":
		return "too old or without a time"
	case errors.Is(err, webhook.ErrHeader):
		return "missing"
	case errors.Is(err, webhook.ErrTimestamp):
		return "too old"
	case errors.Is(err, webhook.ErrHost):
		return "for another host"
	case errors.Is(err, webhook.ErrBody):
		return "missing in the body"
	}
	return "by an unknown key"
}
