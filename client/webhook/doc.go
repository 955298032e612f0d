// Package webhook verifies the signatures of notifier's callbacks, for receivers written in Go. A callback is an HTTP
// request that delivers a notice. Package webhook needs only the standard library.
//
//	body, err := webhook.Payload(r, 1<<20)
//	// …
//	if err := webhook.Verify(r.Header, body, os.Getenv("WEBHOOK_SECRET")); err != nil {
//		http.Error(w, err.Error(), http.StatusUnauthorized)
//		return
//	}
//
// body must be the received bytes, before any parsing.
//
// # Signatures
//
// By default a callback is signed by version 1 of Standard Webhooks (https://www.standardwebhooks.com). The header
// webhook-signature has the HMAC-SHA256 of "id.timestamp.body". The id and the timestamp are in the headers webhook-id
// and webhook-timestamp. [Verify] checks these three headers. A [Verifier] also supports the other signature schemes
// of notifier, for example those with public keys.
//
// While a secret is rotated, the sender signs with the old and the new secret, and a receiver may pass both to
// [Verify]. One of the signatures has to be valid for one of the secrets.
//
// # Duplicates
//
// All attempts of a notice have the same webhook-id, also after a redrive. [Once] processes each callback once: it
// remembers them in a [Store], as [Memory] or, in the transaction of the handler, [SQL].
//
//	result, err := verifier.Check(r.Context(), r.Header, body)
//	// …
//	key, err := webhook.Key(r.Header, result)
//	// …
//	err = once.Do(r.Context(), key, func(ctx context.Context) error {
//		_, err := webhook.Tx(ctx).ExecContext(ctx, "UPDATE orders SET paid = true WHERE id = $1", order)
//		return err
//	})
//	w.WriteHeader(webhook.Status(err))
//
// If the process dies in the handler or between the handler and Done, [SQL] rolls both back, and the next attempt runs the
// handler again; work outside the transaction, such as a call, is then done twice. A store in Redis is in the tests of this
// package: the callback is answered with 409 until a lease ends. [Memory] is empty after a restart.
package webhook
