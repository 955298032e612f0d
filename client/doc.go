// Package client calls the HTTP API of notifier, a service that delivers callbacks at a later time. Package client
// needs only the standard library, and any program may import it.
//
//	c, err := client.New(client.Options{URL: os.Getenv("NOTIFIER_URL"), Token: os.Getenv("NOTIFIER_TOKEN")})
//	// …
//	n, err := c.Schedule(ctx, client.Request{
//		Key:   "shop:orders:paid:4711",
//		Delay: 15 * time.Second,
//		URL:   "https://merchant.example/paid",
//		Body:  []byte(`{"order":"4711"}`),
//	})
//
// # Retries
//
// A [Client] retries a call that could not connect or got status 429, and an idempotent call that failed temporarily.
// Schedule calls are idempotent, unless they replace notices: the service compares the key and the content. So a
// producer that got no answer may call again, even after a restart. An error answer of the service is returned as a
// [*Problem].
//
// # Related packages
//
// Package client/webhook verifies callbacks in the receiver. Package client/clienttest is an in-memory service for
// tests of programs that schedule or receive notices.
//
// # Import
//
// The module path, notifier, names no host, so go get cannot fetch the module. Until it is published under another
// path, check the repository out. Then add to your go.mod, with the folder of the checkout on the right:
//
//	require notifier v0.0.0
//
//	replace notifier => ../notifier
//
// The module needs go 1.26.0 or newer. scripts/set-module-path.sh changes the module path of a copy.
package client
