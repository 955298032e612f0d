// Package clienttest is a notifier in memory, for the tests of programs that
// schedule notices or receive them. It needs the standard library only: no Redis,
// no process beside the test.
//
//	service := clienttest.New(clienttest.Options{Receiver: shop})
//	defer service.Close()
//	c := service.Client() // or any HTTP client, with service.URL
//
//	c.Schedule(ctx, client.Request{Key: "shop:orders:close:1", Delay: 15 * time.Minute, URL: "https://shop.example/close"})
//	service.Advance(15 * time.Minute) // shop is called
//
// Its clock stands still until [Service.Advance] moves it: what a real service
// does over 25 hours, a test sees at once, and in the same order each time. Each
// attempt that falls due on the way is made before Advance returns. Signatures
// alone carry the true time, so that a receiver which checks it, as
// client/webhook does, takes them.
//
// The calls that are served, their statuses, the states and what is kept of
// attempts are those of the real API; this module's tests make the same calls to
// both and compare the answers. What it does not have: tokens, limits of rate and
// concurrency, durability, the texts of problems to the letter, and the history's
// own calls, which answer 404. Replays send what has ended in here: as with all
// else, Advance sends them.
package clienttest
