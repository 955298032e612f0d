// Package store reads and writes notices in Redis. Each script in lua/ has one Go function that calls
// it. Package wire sends the scripts.
//
// # Guarantees
//
// The shadow is a zset of the keys of all pending notices by time; it decides which notices are pending.
// Each script changes record, shadow, claim and timer of a notice together, in one slot, with the time of
// Redis's clock. So a crash never leaves a partly written notice. In a cluster the timer is in another slot
// and is set by a second command. If the timer is lost, the sweep claims the notice one grace (50 ms) late.
//
// The integer part of a score in the shadow is a Unix time in ms. The fraction shows the notice's state:
//
//	fraction        state
//	.0              scheduled, with a timer
//	.5 to .99       scheduled without a timer: due at once
//	c/1024          claimed until that time, after c-1 expired leases (c < 500)
//	(500+h)/1024    postponed, with a timer; h is the index of the cause in notice.Helds (0 < h < 9)
//	.5 + h/256      postponed, without a timer
//
// A notice that is parked after expired leases keeps their number in the fraction, so c/1024 without a claim
// means c expired leases.
//
// In the zset of settled notices, the fraction .0 means delivered and .5 cancelled.
//
// # States
//
//	                ┌── settle: retry, deferred, postponed ──┐
//	                ▼                                        │
//	schedule ──▶ scheduled ────────── claim ────────────▶ claimed ── settle ──▶ delivered ── trim ──▶ none
//	adopt         ▲   │                                    │  │
//	              │   └── amend: cancel ──▶ cancelled ◀────┘  └───── settle ──▶ dead
//	              │                             └── trim ──▶ none                 │
//	              └───────────────────── amend: redrive ──────────────────────────┘
//
// The table has all changes of state. The letters are the operations of the script, as its header explains
// them:
//
//	from                      to                         by
//	none                      scheduled                  schedule, adopt (a)
//	any                       scheduled, a new notice    schedule (replace), adopt (a)
//	scheduled                 scheduled                  amend (reschedule, fire), adopt (m)
//	scheduled                 claimed                    claim
//	claimed, lease expired    claimed                    claim, which counts the expired lease
//	claimed, holder dead      claimed                    claim (take-over), which counts an expired lease
//	claimed                   claimed, awaits a report   settle (w)
//	claimed                   scheduled                  settle (r retry, f deferred, p postponed)
//	claimed                   delivered                  settle (d)
//	claimed                   dead                       settle (x)
//	scheduled, claimed, dead  cancelled                  amend (cancel); of scheduled also adopt (c)
//	dead                      scheduled                  amend (redrive)
//	delivered                 scheduled, dead            amend (reopen)
//	delivered, dead           scheduled                  amend (resend)
//	scheduled, claimed, dead  delivered, cancelled       amend (settle), with the outcome in the history
//	delivered, cancelled      none                       trim
//	any but claimed           the same, other prefix     rehome (package reconcile)
//
// # Sequences
//
// Notices of an ordered route with the same order key form a sequence. Its code is the prelude
// layout/lua/order.lua, which describes its keys in [layout.Order]. Each script calls it where a notice
// joins (schedule, adopt, redrive, resend, restore, replay), leaves (delivered, dead, cancelled, moved) or
// is no longer in flight (settle). A claim checks the head before it reads records, and parks any other
// notice. The script that changes a sequence makes the new head due in the same step. A lost wake message
// delays it by a sweep, at most a second. A head whose holder died becomes due when its marker expires.
// Notices without a position, which were scheduled before the route was ordered, join when they are
// first claimed. A claim removes members whose notice is gone, and counts them in the field strays of
// the shard's layout.
//
// # Prefixes
//
// Before the first call on a key, the store reads the layout of the data and all prefixes that may
// contain notices: see package layout. Package reconcile describes how instances of different
// configurations share notices.
//
// # Losses and duplicates
//
// A repeated schedule call creates no second notice as long as the first one is stored. After Trim
// its tombstone prevents that: see tombstones.go.
//
// An acknowledged call is lost only if Redis loses its data. A Redis that loses its last second
// (appendfsync everysec, failover) loses the notices scheduled in that second. It may also deliver
// notices again that were settled in that second, unless NOTIFIER_DURABILITY_SETTLE had the settle
// confirmed.
//
// A claim holds its notice until its lease expires, or until another instance reclaims it from a dead
// instance ([Store.TakeOver]). A settle after the end of the lease is accepted if no other claim was
// made since. So a lost connection can cause a duplicate delivery only if it is lost for the rest of the
// lease, and another instance claims the notice after that.
//
// The client does not resend a write whose reply was lost: see [wire.Once]. Claims, settles and pushes
// can be repeated. A repeated claim has the same token, and returns the notices that it holds already.
// A repeated settle is stale. In a cluster a push to another slot leaves a marker, which makes a
// repeated push do nothing.
package store
