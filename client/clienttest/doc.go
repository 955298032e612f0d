// Package clienttest is a notifier in memory, for tests of programs that schedule notices or receive them. It needs the
// standard library only: no Redis and no other process.
//
//	service := clienttest.New(clienttest.Options{Receiver: shop})
//	defer service.Close()
//	c := service.Client() // or any HTTP client, with service.URL
//
//	c.Schedule(ctx, client.Request{Key: "shop:orders:close:1", Delay: 15 * time.Minute, URL: "https://shop.example/close"})
//	service.Advance(15 * time.Minute) // shop is called
//
// Its clock stands still until [Service.Advance] moves it. Advance makes each attempt that falls due on the way before it
// returns, in the same order each time, so a test needs no time for the 25 hours of a ladder. Only signatures carry the
// true time: receivers check it.
//
// These calls are served, with the statuses, states and attempts of the real API; this module's tests make the same calls
// to both and compare the answers:
//
//   - POST /v1/notices and /v1/notices/batch schedule;
//   - GET /v1/notices and /v1/notices/{key} list and read;
//   - DELETE /v1/notices/{key} cancels, POST …/redrive schedules a dead letter again;
//   - POST …/ack, …/nack and …/defer take the reports of consumers, which get their entries from [Service.Take];
//   - GET /healthz and /readyz.
//
// Every other call is answered with 404. There are no tokens, limits, history or pages. Texts of problems differ from the
// service's. For tests of the other calls run the service itself: notifier serve --embedded.
package clienttest
