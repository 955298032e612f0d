// Package clienttest runs an in-memory notifier service, for tests of programs that schedule or receive notices
// (callbacks at a later time). It needs only the standard library: no Redis and no other process.
//
//	service := clienttest.New(clienttest.Options{Receiver: shop})
//	defer service.Close()
//	c := service.Client() // or any HTTP client, with service.URL
//
//	c.Schedule(ctx, client.Request{Key: "shop:orders:close:1", Delay: 15 * time.Minute, URL: "https://shop.example/close"})
//	service.Advance(15 * time.Minute) // shop is called
//
// # Time
//
// The clock of a [Service] moves only when a test calls [Service.Advance]. Advance makes all attempts that become due,
// one after the other in a fixed order, and then returns. So a test of retries over 25 hours takes no time. Signatures
// carry the real time, because receivers check it.
//
// # Supported calls
//
// The following calls usually have the statuses, states and attempts of the real service. A dead letter is a notice
// whose delivery was given up.
//
//   - POST /v1/notices and /v1/notices/batch schedule notices.
//   - GET /v1/notices and /v1/notices/{key} list and read notices.
//   - DELETE /v1/notices/{key} cancels a notice.
//   - POST …/redrive schedules a dead letter again. POST …/resend does so for a dead letter or a delivered notice.
//   - POST /v1/routes/{name}/redrive and …/purge schedule or cancel all matching dead letters of a route in one step.
//   - POST /v1/jobs makes a cancel, a redrive or a purge of many at once, so that the job is done in the answer. GET /v1/jobs and
//     /v1/jobs/{id} list and read jobs.
//   - POST /v1/notices/{key}/test sends a test request to the receiver of a notice.
//   - POST …/ack, …/nack and …/defer report that an entry from [Service.Take] was processed, has failed, or is to come
//     again later.
//   - PUT, GET, DELETE /v1/recurrences/{key}, …/pause and …/resume keep recurring notices, and …/run schedules a notice of one. They have
//     no ticks: Advance schedules none, and the next ticks in an answer are those of an interval without an anchor.
//   - POST /v1/open opens the text of an entry of a route with [Route.Sealed]. To test the answers 410 and 503, use [Service.Fail].
//   - GET /healthz and /readyz.
//
// Notices expire as their calls say. There are no ladders that repeat their last step.
//
// All other calls get a 404. There are no tokens, no limits, no history and no dashboard. Error texts differ. To test
// other calls, run the real service: notifier serve --embedded.
package clienttest
