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
// All attempts of a notice have the same webhook-id, also after a redrive. Store the ids for some days. Answer a
// repeated callback with success, and do not process it again.
package webhook
