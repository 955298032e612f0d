// Package webhook verifies the callbacks of notifier, for receivers written in Go. It needs only the
// standard library.
//
// By default a callback is signed as Standard Webhooks (https://www.standardwebhooks.com) version 1
// defines. The header webhook-signature has the HMAC-SHA256 of "id.timestamp.body". The id and the
// timestamp are in webhook-id and webhook-timestamp. [Verify] checks these three headers:
//
//	body, err := webhook.Payload(r, 1<<20)
//	// …
//	if err := webhook.Verify(r.Header, body, os.Getenv("WEBHOOK_SECRET")); err != nil {
//		http.Error(w, err.Error(), http.StatusUnauthorized)
//		return
//	}
//
// The body must be the received bytes, before any parsing. All attempts of a notice have the same
// webhook-id, also after a redrive. Store the ids for some days, and answer a repeated callback with
// success without processing it again.
//
// While a secret is rotated, the sender signs with the old and the new secret. A receiver may have both
// too. A callback is valid if one signature is valid for one secret.
//
// A [Verifier] also verifies the other schemes of notifier, for example those with public keys.
package webhook
