// Package client speaks to the HTTP API of notifier. It needs the standard library
// only, and may be imported by any program.
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
// A [Client] repeats what may be repeated: a call that never reached the service,
// and one that failed for the moment and that comes to the same when it is made
// twice. Scheduling does: the key and the content decide, so a producer that got no
// answer may call again, in this process or the next. Answers that are problems
// become a [*Problem].
//
// Package client/webhook verifies callbacks in the receiver, and client/clienttest
// is a service in memory for tests of programs that schedule notices or receive them.
//
// # Importing it
//
// The module's path, notifier, names no host, so that go get cannot fetch it. Until
// it is published under a path of its own, check it out and write into go.mod
//
//	require notifier v0.0.0
//
//	replace notifier => ../notifier
//
// with the checkout's folder to the right, and go 1.26.0 or newer.
// scripts/set-module-path.sh gives a copy of your own another path.
package client
