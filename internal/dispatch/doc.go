// Package dispatch claims due notices, runs their handlers and settles the results.
//
// # A claim
//
// A hint is the key of a notice whose expired event has arrived (package listener). A sweep searches for
// notices that are still unclaimed one grace, 50 ms, after their due time (package reconcile).
//
//	hint (its time has come) ─┐
//	                          ├─▶ claimed ─▶ handled ─▶ settled
//	sweep (it is overdue) ────┘      │          │          ├─ delivered
//	    ▲       ▲       ▲            │          │          ├─ handed: awaits the consumer's report until its deadline
//	    │       │       │            │          │          ├─ retry: due again after the ladder's step
//	    │       │       │            │          │          └─ dead
//	    │       │       │            │          │
//	    │       │       └─ postponed ◀┴─────────┘  no attempt used, same due time: postponed by the handler,
//	    │       │                                  cut short by a shutdown, or too little of the lease left.
//	    │       │                                  A lock defers to a new due time instead
//	    │       └───────── expired lease ◀── this process died, or lost Redis, before the settle. The next
//	    │                                    claim, after the lease or the reclaim of a dead instance's
//	    │                                    claims, counts an interrupted attempt
//	    └───────────────── retry
//
// [Decide] computes the settlement from route, notice and result. Each claim has a unique token. A
// settle is stale, and changes nothing, if its token is no longer that of the notice's claim.
//
// # Guarantees
//
// A due notice is never lost: it stays in the store until it is settled.
//
//   - A lost hint delays its notice by the grace, after which the sweep finds the notice.
//   - A lost reply to a claim call delays the claimed notices until they are recovered: as soon as
//     Redis answers and slots are free, and again 1 s and 5 s later, since Redis may run the call
//     late. Otherwise their lease expires and the next sweep claims them.
//
// A second delivery needs a failure between the handler's success and the settle:
//
//   - This process dies, or loses Redis for the rest of the lease.
//   - This process's connections to Redis are closed, and it cannot reconnect within
//     NOTIFIER_TAKEOVER (see package fleet).
//   - Redis loses the settle: a failover loses writes that the new master has not received, and a
//     power cut loses writes that are not on disk. NOTIFIER_DURABILITY_SETTLE prevents this case: a
//     settle without the confirmation of replicas or disk is retried, settleTries times in all.
//
// A notice in flight gets no second handler in this process, even if Redis gives it out again because
// its clock jumped ahead or it lost the claim: the later claim then carries the settle. Two processes
// can still deliver it twice in that case.
//
// # Leases
//
// A lease is the route's timeout plus [route.Margin], and begins with the claim. After a handler that
// took h, the lease has h less left, which is at least the margin. A handler starts only if the lease
// still lasts for its timeout plus one second, measured by this process's clock from the moment the
// claim was sent. Otherwise, or if other instances may have reclaimed the claim, the claim is released.
// A recovered claim has a full lease. While a settle fails, it is retried until Redis answers, and its
// route claims nothing from its shard.
//
// Leases of running handlers are not renewed. Renewal would cost a call every few seconds for each slow
// handler. It would help only in an outage that begins late in a slow handler, where it would replace
// the margin by a lease.
//
// # Slots
//
// Each route has a number of slots, and there is a number in total. A slot is taken before a claim call
// and freed when the handler has returned, or when the attempt is settled if some hundred attempts wait
// for that. So the number of notices in this process is bounded. A saturated route claims nothing that
// it cannot start soon, and does not keep slots from other routes beyond the total. When the total is
// used up, a freed slot goes to the waiting route that holds the fewest.
//
// A slot would be empty during the claim call for its next notice. So a route claims ahead of its slots
// as many notices as its handlers will start within 3 ms, at their recent speed, but at most as many as
// it has slots. For handlers that take a second this is none. Claims ahead count in the total, but no
// more handlers run than there are slots. A claim that has waited for a slot for 50 ms, because the
// handlers have become slow, is released: another instance may have a slot.
//
// Nothing is claimed before the first SetPaused, so that a paused route stays paused while an instance
// starts.
//
// # Hints and sweeps
//
// A hint is a key whose timer has expired ([Dispatcher.Expired]), or a key named by a call of this
// process or another instance ([Dispatcher.Hint]). Its notice is claimed by key, and a second time when
// it is due if the hint came at most the grace too early. A sweep claims overdue notices. In logs and
// metrics the source of a claim is event only if an expired event triggered it; otherwise it is sweep.
//
// Hints are dropped when there is no room for them; the sweep finds their notices later. While hints
// come, sweeps leave a quarter of a route's slots to them, and a quarter is reserved for sweeps, so that
// neither waits for the other. A backlog is swept in turn from its oldest and its newest end. A burst
// for one destination therefore does not delay the notices that fall due after it.
//
// # Busy hosts
//
// A notice that waits for a slot of its host is postponed and holds no claim, so that it can be
// cancelled, rescheduled, paused and recovered after a kill -9 like any other. For at most 2,000 notices
// of a route, earliest due first, this instance remembers the key and the score that the postponement
// wrote. Above that, the latest notice of the host with the most notices is forgotten.
//
// When a call to a host ends, the next notice is claimed by key. The script allows this before the end
// of the postponement only if the score is unchanged and is the score of a postponement. The end of the
// postponement, one and a half times the expected wait, is the fallback if this instance dies.
//
// # A node that hangs
//
// In a cluster the shards are on several nodes, and one node may hang. Failing claims and settles delay
// only their own shard. A claim call without a reply for 100 ms frees its slots for shards on healthy
// nodes, and no other call is sent for its shard until the reply. Its claims then wait for slots like
// all others, and are released if none is free. So at most two calls of each kind, for each route and
// shard, wait for the node, and none of them holds a slot.
//
// # A dead instance
//
// The claims of a dead instance are reclaimed when their leases expire, by the sweep, or earlier by
// [Dispatcher.TakeOver]. It reads the claims of one partition whose tokens begin with the dead
// instance's id, as slots become free. Several instances may do so at once. A settle by the old claim
// is stale.
//
// An attempt counts as interrupted if its claim was never settled, or if this process was suspended at
// the handler's deadline. A notice that kills its process must not do so forever. But the handler may
// never have started, since a lost reply to a claim call looks the same. So a few interrupted attempts
// are granted beyond the ladder, and a notice without a ladder is not dead because Redis was slow once.
//
// # Settles and reports
//
// A settle waits a few milliseconds for others ([Dispatcher.SetParts]), so that the calls of a steady
// load carry several. A push does not wait, because consumers wait for it, and neither does a settle
// during a shutdown. Attempts that were not settled when the process was killed are repeated.
//
// A consumer's report on an entry from a list or stream takes the same way: the report is the result,
// [Decide] computes the settlement, and the settle writes it. See [Reports].
//
// # Lateness
//
// Lateness is observed once for each exchange that began, counted from the due time in the record. A
// retry, a lock, a consumer's deferral and a producer's call set a new due time. A postponement keeps
// it and changes only the score. A notice that was parked until its turn in its sequence counts from the end
// of that wait.
//
// The held label is the cause that delayed the notice the longest. The fraction of the score is the
// cause of the last postponement, so that every instance knows it at the claim. The time of each cause
// is written to the record (member held) only if the cause changes and other causes delayed the notice
// for a second or more; a new due time clears it. Pauses and failed claims are known only to the
// instances that ran at the time. After the death of an instance the cause is none.
//
// # Structure
//
// Each route has a routeQueue, whose parts have one task each: slots (the notices in this process),
// hints and backlog (the two sources of claims), inFlight, and a shardQueue for each shard with
// unanswered (claim calls to retry) and health (whether Redis accepts claims and settles). Handlers run
// on workers that all queues share, and settles are sent in batches. [Dispatcher.Drain] ends all of it.
package dispatch
