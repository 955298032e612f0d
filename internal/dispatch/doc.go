// Package dispatch delivers due notices (delayed callbacks): it claims them in Redis, runs the handler of their route,
// and stores the results.
//
//	hint ───┐
//	        ├──▶ claim ──▶ handler ──▶ settle ──▶ finalized, or due again later
//	sweep ──┘
//
//	hint     the key of a notice that may be due, usually because its timer in Redis has expired
//	sweep    a search for due notices, such as those whose hints were lost
//	claim    reserves a notice for one attempt by one process, until a time limit: the lease
//	handler  makes the attempt, for example by an HTTP request
//	settle   the write to Redis that stores the result of the attempt and ends the claim (see [Decide])
//
// A due notice stays in Redis until it is settled. If its hint is lost, a sweep finds it. If the process that claimed
// it dies, the notice is claimed again when the lease ends, or earlier by [Dispatcher.TakeOver]. An attempt without a
// settle counts as interrupted, so a notice that kills its process cannot do so forever.
//
// A settle has an effect only for the notice's current claim. A second delivery needs one of these failures between the
// receiver's success and the settle:
//
//   - This process dies, or is suspended or cannot reach Redis for the rest of the lease.
//   - The connections of this process to Redis are closed, and it cannot reconnect within NOTIFIER_TAKEOVER.
//   - Redis loses the claim or loses the settle, for example in a failover or a power cut. With
//     NOTIFIER_DURABILITY_SETTLE, a settle waits for replicas or the disk.
//   - The clock of Redis jumps ahead.
//   - A line of a log target is written in part, and the write then fails or does not end.
//
// The number of concurrent attempts is limited for each route and for the whole process. If a Redis node hangs, mainly
// the notices stored on it are late.
package dispatch
