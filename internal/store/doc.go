// Package store keeps the notices in Redis: the scripts in lua/, and one Go function for
// each script. Package wire sends them.
//
// # What holds
//
// The shadow zset is the truth about what is pending. Each script changes
// record, shadow, claim and timer of a notice together, in one slot, with the
// time taken from Redis; so there is no moment at which a crash leaves half a
// notice. In a cluster the timer lies in another slot and is set by a second
// command: losing it costs lateness (the grace), never the notice.
//
// A score in the shadow is a Unix time in ms plus a fraction that says what it
// stands for:
//
//	.0              scheduled, with a timer
//	.5 to .99       scheduled without a timer: due at once
//	c/1024          claimed until then, c-1 claims having lapsed before (c < 500)
//	(500+h)/1024    postponed, with a timer; h is the index of the cause in notice.Helds (0 < h < 9)
//	.5 + h/256      postponed, without a timer
//
// In the settled zset .0 is delivered and .5 is cancelled.
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
// All of them, by script; the letters are the script's own:
//
//	from                      to                         by
//	none                      scheduled                  schedule, adopt (a)
//	any                       scheduled, a new notice    schedule (replace), adopt (a)
//	scheduled                 scheduled                  amend (reschedule, fire), adopt (m)
//	scheduled                 claimed                    claim
//	claimed, lease lapsed     claimed                    claim, which counts the lapse
//	claimed, holder dead      claimed                    claim (take-over), which counts the lapse
//	claimed                   claimed, awaits a report   settle (w)
//	claimed                   scheduled                  settle (r retry, f deferred, p postponed)
//	claimed                   delivered                  settle (d)
//	claimed                   dead                       settle (x)
//	scheduled, claimed, dead  cancelled                  amend (cancel); of scheduled also adopt (c)
//	dead                      scheduled                  amend (redrive)
//	delivered                 scheduled, dead            amend (reopen)
//	delivered, cancelled      none                       trim
//	any but claimed           the same, other prefix     rehome
//
// # Which prefix
//
// Nothing is read by key or written before the layout of the data is known, nor
// without all prefixes under which a notice may lie: see package layout.
// How instances of different configurations share the notices stands in package
// reconcile.
//
// # What may be lost or doubled
//
// A repeated schedule call makes no second notice while the first one is kept, and after
// Trim as long as its tombstone is: see tombstones.go.
//
// Nothing that a call acknowledged is lost while Redis keeps its data. A Redis
// that forgets its last second (appendfsync everysec, failover) forgets the
// notices scheduled in it, and may hand out again what was settled in it, unless
// NOTIFIER_DURABILITY_SETTLE had the settle confirmed.
//
// A claim holds its notice for a lease and no longer, and until others take it over
// from an instance that is dead ([Store.TakeOver]). The settle of a claim whose
// lease has ended is still taken if nobody has claimed the notice since; so what a
// connection lost for longer than the lease, less what its handler took, may
// double is what another instance claimed meanwhile.
//
// A write whose answer was lost is not sent again by the client: see [wire.Once]. A
// claim call is made again by its token, and wins again what it had won; a settle
// is repeated, and is stale the second time. A push of its own, in a cluster,
// leaves a marker in the slot of its list or stream, and does nothing the second time.
package store
