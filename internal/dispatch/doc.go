// Package dispatch delivers due notices: it claims them in Redis, runs the handler of their route,
// and settles the results. A settle is the write that ends a claim.
//
//	hint (the timer has expired) ─────┐
//	                                  ├──▶ claim ──▶ handler ──▶ settle ──▶ delivered, dead
//	sweep (overdue by 50 ms or more) ─┘                            │
//	    ▲                                                          │
//	    └──────── due again: retry, postponed, deferred, handed ◀──┘
//
// A hint is the key of a notice whose timer has expired (package listener). A sweep searches for
// notices that are still unclaimed one grace, 50 ms, after their due time (package reconcile).
// [Decide] computes the end of an attempt from route, notice and result:
//
//	delivered  the receiver has accepted the notice
//	dead       the receiver has rejected the notice for good, or the ladder is used up
//	retry      due again after the next delay of the route's ladder
//	postponed  nothing was sent, or a shutdown interrupted the attempt; the due time stays the same
//	deferred   the receiver is locked; a new due time is set and no attempt is counted
//	handed     the entry was pushed; the consumer's report is awaited until a deadline
//
// # Guarantees
//
// A due notice is never lost: it is stored in Redis until it is settled.
//
//   - A lost hint delays its notice by one grace. Then the sweep finds it.
//   - If the reply to a claim call is lost, recovery calls find the claimed notices: one when Redis
//     answers and slots are free, and two more 1 s and 5 s later, since Redis may execute the lost
//     call late. Otherwise the leases expire, and a sweep claims the notices again.
//
// Each claim has a unique token, and a settle has an effect only if its token is that of the
// current claim. Otherwise it is stale. A second delivery needs one of these failures before the
// settle:
//
//   - This process dies, or cannot reach Redis for the rest of the lease.
//   - The connections of this process to Redis are closed, and it cannot reconnect within
//     NOTIFIER_TAKEOVER (package fleet).
//   - Redis loses the settle. A failover loses writes that the new master has not received, and a
//     power cut loses writes that are not on disk. With NOTIFIER_DURABILITY_SETTLE, a settle that
//     replicas or disk have not confirmed is tried settleTries times.
//   - Redis loses the claim, or its clock jumps ahead, and another process claims the notice.
//     Within one process, a second claim of a notice in flight starts no second handler.
//
// # Leases
//
// A lease lasts for the route's timeout plus [route.Margin], and begins with the claim. A handler
// starts only if the rest of the lease is at least the timeout plus one second. Otherwise the claim
// is released. It is also released if other instances may have reclaimed it. The process measures
// with its own clock, from the time at which it sent the claim.
//
// Leases of running handlers are not renewed. Renewal would cost a call every few seconds for each
// slow handler. It would help only if Redis becomes unavailable late in a slow handler.
//
// # Slots
//
// A running attempt takes a slot. The number of slots is limited for each route and for the whole
// process, so the number of notices in the process is bounded. A slot is taken before the claim
// call, and is freed when the handler returns. If some hundred attempts wait to be settled, it is
// freed when its attempt is settled. When the slots of the process are used up, a freed slot goes
// to the waiting route that holds the fewest.
//
// A slot would be idle during the claim call for its next notice. So a route claims ahead: as many
// notices as its handlers will start within 3 ms at their recent speed, but no more than it has
// slots. For handlers that take a second this is none. These claims count in the total of the
// process, and wait until a slot is free. After 50 ms they are released, because another instance
// may have a free slot.
//
// Nothing is claimed before the first SetPaused, so that a paused route stays paused while an
// instance starts.
//
// # Hints and sweeps
//
// Hints come from expired events ([Dispatcher.Expired]), and from calls of this process or another
// instance that name a key ([Dispatcher.Hint]). A hint claims its notice by key. If the hint comes
// too early by at most one grace, the claim is repeated when the notice is due. In logs and metrics
// the source of a claim is "event" only if an expired event triggered it, otherwise "sweep".
//
// Hints are dropped if their queue is full; a sweep finds their notices later. While hints arrive,
// a quarter of a route's slots is reserved for them and a quarter for sweeps. So neither delays the
// other. Sweeps of a backlog alternate between its oldest and its newest end. So a burst for one
// destination does not delay the notices that become due after it.
//
// # Busy hosts
//
// A notice that waits for a slot of its host is postponed and has no claim. So it can be cancelled,
// rescheduled and paused like any other notice, and does not depend on this process. The process
// remembers the keys and scores of at most 2,000 such notices of a route. Above that, it forgets
// the latest notice of the host that has the most.
//
// When a call to a host ends, the next notice for the host is claimed by key. Redis allows that
// before the end of the postponement only if the score is the one that the postponement has
// written. If this instance dies, the notice is claimed at the end of the postponement: after two
// seconds plus one and a half times the expected wait.
//
// # A node that hangs
//
// In a cluster, shards are on several nodes. If one node hangs, its failed claims and settles delay
// only its own shards. A claim call without a reply for 100 ms gives its slots to other shards.
// Before the reply, no other call is sent for its shard. The notices of a late reply wait for free
// slots, or are released. So for each route and shard at most two calls of each kind wait for the
// node, and they hold no slots.
//
// # A dead instance
//
// The claims of a dead instance are reclaimed by sweeps when their leases expire.
// [Dispatcher.TakeOver] reclaims them earlier: it claims those of one partition whose tokens begin
// with the id of the dead instance, as slots become free. Several instances may do so at once. A
// settle under the old claim is stale.
//
// An attempt counts as interrupted if its claim was never settled, or if the process was suspended
// at the deadline of the handler. Counting limits the damage of a notice that kills its process.
// But the handler may never have started, since a lost reply to the claim call looks the same. So a
// few interrupted attempts are granted beyond the ladder.
//
// # Settles and reports
//
// A settle waits a few milliseconds for others ([Dispatcher.SetParts]), so that one call writes
// several. It does not wait if it pushes an entry, because consumers wait for that entry, or during
// a shutdown.
//
// A consumer reports the result of an entry that it has read from a list or stream. [Decide] and
// the settle treat the report like the result of a handler. See [Reports].
//
// # Lateness
//
// The lateness metric is observed once for each exchange: the time between the due time in the
// record and the start of the exchange. A retry, a lock and a producer's change set a new due time.
// A postponement does not. In an ordered sequence, the time of a notice that waits for its turn
// does not count.
//
// The label "held" names the cause of the longest delay. All instances read the cause of the last
// postponement from the fraction of the score. The times of earlier causes are written to the
// record only if the cause changes and they sum up to a second or more. Pauses and failed claims
// are known only to the instances that were running then. After the death of an instance the cause
// is "none".
//
// # Structure
//
// Each route has a routeQueue. Its parts have one task each:
//
//   - slots: the notices in this process
//   - hints and backlog: the two sources of claims
//   - inFlight: the claims that are not settled
//   - a shardQueue per shard: unanswered (claim calls to repeat) and health (whether Redis accepts
//     claims and settles)
//
// All queues share the workers that run handlers. Settles are sent in batches. [Dispatcher.Drain]
// stops everything.
package dispatch
