// Package webhook verifies the callbacks that notifier sends, for receivers
// written in Go. It needs the standard library only.
//
// A callback carries webhook-id, webhook-timestamp and webhook-signature after
// Standard Webhooks (https://www.standardwebhooks.com), version 1: HMAC-SHA256 of
// "id.timestamp.body" with the secret's bytes. [Verify] checks all three:
//
//	body, err := webhook.Payload(r, 1<<20)
//	// …
//	if err := webhook.Verify(r.Header, body, os.Getenv("WEBHOOK_SECRET")); err != nil {
//		http.Error(w, err.Error(), http.StatusUnauthorized)
//		return
//	}
//
// The body must be the bytes as they came, before any parsing. A callback may
// come again with the same webhook-id, over all retries and redrives: remember
// the ids for some days, and answer a repeated one with success without doing the
// work twice.
//
// While a secret is changed the sender signs with the old and the new one, and a
// receiver may hold both: one signature that fits one secret is enough.
package webhook
