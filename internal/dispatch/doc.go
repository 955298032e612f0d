// Package dispatch claims due notices, runs their handlers and settles what
// came of them.
//
// # A claim
//
//	hint (its time has come) ─┐
//	                          ├─▶ claimed ─▶ handled ─▶ settled
//	sweep (it is overdue) ────┘      │          │          ├─ delivered
//	    ▲       ▲       ▲            │          │          ├─ handed: a consumer reports, or the time for it ends
//	    │       │       │            │          │          ├─ retry: due again after the ladder's step
//	    │       │       │            │          │          └─ dead
//	    │       │       │            │          │
//	    │       │       └─ postponed ◀┴─────────┘  no attempt used, and due as before: postponed by the handler,
//	    │       │                                  cut short by a shutdown, or too little was left of the lease to
//	    │       │                                  begin. A lock defers to a new due time instead
//	    │       └───────── lapsed ◀── this process died, or lost Redis, before the settle: when the lease
//	    │                             ends, or others know that it is dead, the next claim counts an
//	    │                             interrupted attempt
//	    └───────────────── retry
//
// What a settle writes is a function of route, notice and result: see [Decide].
// Each claim has a token of its own, and a settle whose token is no longer the
// claim's changes nothing: it is stale.
//
// What may be lost: hints, at any time; the sweep finds their notices a grace
// later. An answer to a claim call; what it had won is looked for as soon as Redis
// answers and there are slots, and 1 and 5 s after that, since the call itself may
// be carried out later still; or it comes back when its lease has lapsed. Nothing
// else: a notice is where the store has it.
//
// # Slots
//
// Each route has a number of slots, and there is a number in total. A slot is
// taken before a claim is asked for and freed when the handler has returned, or
// when the attempt is settled once some hundreds wait for that, so what this
// process holds is bounded, and a saturated route neither claims what
// it cannot begin soon nor keeps others from their slots beyond the total. When the
// total is used up, what comes free goes first to the waiting route that holds
// the least of it: one with a backlog cannot keep it all to itself.
//
// A slot would stand empty while the next claim for it is under way. So a route
// claims ahead of its slots what its handlers will begin within 3 ms, as quick as they
// were lately, as many as it has slots at most: of handlers that take a second,
// nothing. It counts in the total. No more handlers run for it than there are slots.
// What has waited for one for 50 ms, because the handlers have become slow, is given
// back, since another instance may have a slot.
//
// Nothing is claimed before SetPaused has been called once: a route that was
// paused stays so while an instance starts.
//
// # Lateness
//
// Lateness is observed once for each exchange that began, from the due time in the record.
// That is the promise: a retry, a lock, a consumer's defer and a producer's call make a new
// one; a postponement does not, and only moves the score. The label held is the cause that
// held the notice the longest. The score's fraction is the cause of the last postponement, so
// that every instance knows it when it claims. Only when the cause changes, and others
// held the notice for a second or more, does the record get the time of each cause (the member
// held), which a later due time voids. Pauses, and times in which claims failed, are
// known to the instances that ran then. After an instance died, the cause is none.
//
// # Two ways to a claim
//
// A hint is a key whose timer has expired ([Dispatcher.Expired]), or that a call of this
// process or another instance names ([Dispatcher.Hint]). It is claimed by name, and once more
// when it is due if the hint came within the grace before that. A sweep claims overdue
// notices. In logs and metrics the source of a claim is event only if an expired event
// triggered it; otherwise the source is sweep. Hints are dropped when there is no room for them; the
// sweep finds those notices later. Sweeps leave a quarter of a route's slots to
// hints, as long as some come, and a quarter is theirs though hints come without
// end: neither way waits for the other. A backlog is swept from its oldest and its
// newest end in turn, so that a burst for one destination does not hold up
// what fell due after it.
//
// # Busy hosts
//
// No claim is held while a notice waits for a slot of its host: the notice is postponed, so that a
// cancel, a reschedule, a pause and a kill -9 find it as any other. The instance remembers the key and the score
// that the postponement wrote, of 2,000 notices of a route at most, the earliest due first; beyond
// that, the host with the most gives way. When a call to a host ends, the next is claimed by its key. The script
// allows that before the postponement ends only if the score is still exactly the same, and
// is one of a postponement. The end of the postponement is the fallback, one and a half of
// the expected time later, for when this instance dies.
//
// # What may be doubled
//
// A second delivery needs one of these between the handler's success and the settle:
// this process dies, or loses Redis for what the handler has left of the lease, or its
// connections to Redis are closed and it cannot come back for NOTIFIER_TAKEOVER (see
// package fleet). A notice is also handled again if Redis loses its settle: a failover
// loses writes that the new master has not received, a power cut those that are not on
// disk. NOTIFIER_DURABILITY_SETTLE removes this case while replicas or the disk confirm;
// a settle that is not confirmed is repeated settleTries times. The lease is the route's timeout and [route.Margin], and begins with the
// claim: a handler that took h leaves the lease less h, which is the margin at
// least. A handler begins only while its timeout and a second more are left, by
// this process's clock from the moment the claim was sent; otherwise the notice is
// given back, as it is if others may have taken the claim over. A claim found again after its answer was lost has a whole lease from
// then on. While a settle fails, it is repeated until Redis answers, and nothing
// of its route and shard is claimed.
//
// The leases of running handlers are not renewed: it would take a call each few
// seconds for each handler that is slow, to lengthen only the outages that begin
// late in a slow handler, from the margin to a lease.
//
// A settle waits a few milliseconds for others ([Dispatcher.SetParts]), so that the
// calls of a steady load carry several, except where it is the push that consumers wait
// for, and while this process stops. What is killed in that time comes again.
//
// A notice that this process has in hand, from its claim to the answer to its
// settle, has no second handler here, even if Redis gives it out again because its
// clock went ahead or it forgot the claim: the later claim then carries the settle.
// Two processes can still double it in that case.
//
// # A node that hangs
//
// In a cluster the shards lie at several nodes, and one of these may hang. Claims
// and settles that fail hold up their own shard and no other. A claim call that has
// waited for 100 ms gives its slots back, to the shards that are well, and until it
// is answered no other call is made for its shard: what it has won then waits for
// slots like everything else, and is given back where there are none. So at most
// two calls of each kind, of each route and shard, wait for such a node, and none
// holds a slot.
//
// # Reports
//
// What consumers say of the entries that they took from a list or a stream goes
// the same way: the report is the result, [Decide] says what becomes of the notice,
// and the settle writes it. See [Reports].
//
// # What is lost with an instance
//
// What a dead instance had claimed is found when the leases lapse, by the sweep,
// or before: see [Dispatcher.TakeOver]. That goes through the claims of one
// partition whose tokens begin with the dead one's id, as slots allow, also when
// several instances do it at once. A settle by the old claim is stale.
//
// An attempt that a handler could not finish because this process stood still at its
// deadline counts as interrupted, and so does one that was claimed and never settled:
// a notice that kills its process must not do so for ever. But it may never
// have been begun, since a claim call whose answer is lost leaves the same
// trace. So some such attempts are granted beyond the ladder, and a notice
// without a ladder is not dead because Redis was slow once.
//
// # Inside
//
// Each route has a queue. Its parts have one task each: slots (what may be in
// hand, and who has taken it), hints and backlog (the two ways to a claim), inHand,
// and for each shard a shard: unanswered (claim calls to make again) and health
// (whether Redis takes claims and settles at all). Handlers run on workers, which all queues share, and
// settles leave in batches. [Dispatcher.Drain] ends and waits for all of it.
package dispatch
