// Package store reads and writes notices in Redis. Each change of a notice's state is one Lua
// script in lua/, called by one Go function and sent by package wire.
//
// # Guarantees
//
// A crash never leaves a partly written notice. One script changes the four parts of a notice
// together, within one slot of a cluster and with the time of Redis's clock:
//
//	record  the content of the notice, in a hash
//	shadow  a zset of the keys of all pending notices, by the time of their next change
//	claim   a key with the token of the instance that delivers the notice; its TTL is the lease
//	timer   a key whose expired event says that the notice is due
//
// The shadow decides which notices are pending. A timer only makes them punctual. In a cluster it
// is in another slot and is set by a second command. If it is lost, a sweep of the shadow claims
// the notice one grace (50 ms) late.
//
// The integer part of a score in the shadow is a Unix time in ms. The fraction encodes the state:
//
//	fraction        state
//	.0              scheduled, with a timer
//	.5 to .99       scheduled without a timer: due at once
//	c/1024          claimed until that time, after c-1 expired leases (c < 500)
//	(500+h)/1024    postponed, with a timer; h is the index of the cause in notice.Helds (0 < h < 9)
//	.5 + h/256      postponed, without a timer
//
// A parked notice waits in a sequence and has no claim. Its fraction c/1024 means c expired leases.
//
// In the zset of settled notices, the fraction is .0 for delivered and .5 for cancelled.
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
// The table lists all changes of state. Names such as settle are those of scripts. A letter in
// parentheses is an operation, which the header of the script explains:
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
// On an ordered route, the notices with the same order key form a sequence, and are delivered one
// after another. Only the first one, the head, may be claimed. A claim parks any other notice
// before it reads the record.
//
// The code is in layout/lua/order.lua, which other scripts include; see [layout.Order]. A notice
// joins the sequence when it is scheduled, adopted, redriven, resent, restored or replayed. It
// leaves when it is delivered, cancelled or moved, and when it is dead unless dead letters block the
// route. The script that removes a head makes the next notice due in the same step, and sends a
// wake message. If that message is lost, a sweep finds the notice within a second.
//
// If the instance that delivers a head dies, the head is due again when its marker in Redis
// expires. Notices that were scheduled before the route was ordered join when they are first
// claimed. A claim removes members whose notices are missing, and counts them in the field strays
// of the shard's layout.
//
// # Prefixes
//
// Before its first call, the store reads the layout of the data, and all prefixes that may contain
// notices: see package layout. Package reconcile describes how instances with different
// configurations share notices.
//
// # Losses and duplicates
//
// A repeated schedule call creates no second notice while the first is stored. After the first was
// trimmed, a tombstone prevents it: see tombstones.go.
//
// An acknowledged call is lost only if Redis loses data. A failover, or a crash with appendfsync
// everysec, may lose the last second of writes. Notices scheduled in that second are lost, and
// notices settled in that second may be delivered again. NOTIFIER_DURABILITY_SETTLE prevents the
// latter.
//
// A claim is valid until its lease expires, or until another instance reclaims it from a dead one
// ([Store.TakeOver]). A settle after the end of the lease is still accepted if no instance has
// claimed the notice since. So losing the connection causes a duplicate delivery only if it lasts
// for the rest of the lease and another instance then claims the notice.
//
// The client never sends a write again by itself: see [wire.Once]. The callers repeat these calls:
//
//   - claims: a repeated call has the same token, and returns the claims that it already has
//   - settles: a repeated settle is stale and changes nothing
//   - pushes: in a cluster, a push to another slot leaves a marker, so that a repeated push does
//     nothing
package store
