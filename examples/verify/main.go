// Command verify checks the signature of one callback, in any signature scheme of notifier. It exits with 0 if the
// callback is valid, and with 1 otherwise:
//
//	go run ./examples/verify SCHEME KEY-FILE BODY-FILE HEADER=VALUE...
//
// SCHEME is, for example, standard or jws. KEY-FILE contains a key, or the URL of the sender's key set. A signature is
// valid for five minutes if it contains a time. A jws signature contains the host of the receiver, and this command
// accepts only 127.0.0.1.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"notifier/client/webhook"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("want a scheme, the files of key and body, and HEADER=VALUE pairs")
	}

	key, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}

	body, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}

	header := http.Header{}
	for _, pair := range args[3:] {
		name, value, _ := strings.Cut(pair, "=")
		header.Set(name, value)
	}

	v, err := verifier(args[0], string(key), "127.0.0.1")
	if err != nil {
		return err
	}

	_, err = valid(ctx, v, header, body)
	return err
}

// verifier returns the verifier of a scheme. key is the secret of standard, stripe and github, the text key of sorted
// and sorted-jeepay, a public key in PEM or whpk_… of the others, or the https address of the sender's key set. host is
// the receiver's host, for jws.
func verifier(scheme, key, host string) (*webhook.Verifier, error) {
	o := webhook.Options{Scheme: webhook.Scheme(scheme), Host: host}
	switch set, err := webhook.NewKeySet(key, nil); {
	case err == nil:
		o.KeySet = set
	case slices.Contains([]string{"standard", "stripe", "github", "sorted", "sorted-jeepay"}, scheme):
		o.Secrets = []string{key}
	default:
		o.Keys = []string{key}
	}

	return webhook.NewVerifier(o)
}

// valid returns an error unless the callback is valid. If TimeUnchecked is set, deduplicate by the body.
func valid(ctx context.Context, v *webhook.Verifier, h http.Header, body []byte) (webhook.Result, error) {
	return v.Check(ctx, h, body)
}
