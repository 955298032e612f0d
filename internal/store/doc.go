// Package store reads and writes notices in Redis. A notice is one callback that is to be delivered at a given time. A
// change of a notice's state is one call of a Lua script, usually of one in lua/.
//
// # Parts of a notice
//
// A notice has up to four parts in Redis:
//
//	part    what it is
//	record  the content of the notice, in a hash
//	shadow  its entry in the zset of all pending notices, which is sorted by the time of their next change
//	claim   a key with the token of the instance that delivers the notice; its TTL is the lease
//	timer   a key whose expired event says that the notice is due
//
// A crash never leaves a partly written notice, because one script changes all parts. The exception is the timer in a
// cluster: a second command sets it afterwards. But the timer only makes a notice punctual. Each instance (a process of
// the service) regularly sweeps the shadow: it claims overdue notices. If a timer is lost, the sweep claims its notice
// one grace (50 ms by default) late.
//
// Records and shadows are stored by partition: the notices of one route in one shard. A shard is a part of all notices,
// on one Redis node. The score of a notice in the shadow encodes its state: see score.go.
//
// # States
//
//	                ┌── settle: retry, deferred, postponed ──┐
//	                ▼                                        │
//	schedule ──▶ scheduled ────────── claim ────────────▶ claimed ── settle ──▶ delivered ── trim ──▶ deleted
//	adopt         ▲   │                                    │  │
//	              │   └── amend: cancel ──▶ cancelled ◀────┘  └───── settle ──▶ dead
//	              │                             └── trim ──▶ deleted              │
//	              └───────────────────── amend: redrive ──────────────────────────┘
//
// The labels are names of scripts: claim starts an attempt, settle stores its result, and amend changes a notice on
// request. A deferred notice gets a new due time. A postponed one keeps it: its attempt cannot start yet, for example
// because its receiver is paused. The comments in the scripts describe all changes of state.
//
// On an ordered route, notices with the same order key ([keys.OrderKey]) form a sequence, and are delivered one after
// another. A due notice that is not the first of its sequence is parked: it waits. See lua/lib/order.lua.
//
// # Losses and duplicates
//
// A repeated schedule call normally creates no second notice: see tombstones.go. An acknowledged call is lost only if
// Redis loses data. A failover, or a crash with appendfsync everysec, may lose the last second of writes. Notices
// scheduled in that second are lost, and notices settled in it may be delivered again. The settings NOTIFIER_DURABILITY
// and NOTIFIER_DURABILITY_SETTLE guard against this.
//
// A claim can normally be settled until another instance claims the notice: after the lease, or earlier because the
// first instance seems dead ([Store.TakeOver]). So an instance that loses its connection to Redis causes a duplicate
// delivery only if the notice is claimed again before the connection is back.
//
// The Redis client never repeats a write by itself. Callers of this package may repeat these calls:
//
//	call    how it is repeated
//	claim   [Store.ClaimKeys] with the same token, or [Store.Recover] after a sweep, returns the existing claims
//	settle  a repeated settle is stale and changes nothing
//	push    in a cluster, [Push] leaves a marker, so a repeated push adds nothing
//
// # The layout
//
// The layout says how the data is arranged in one Redis. It consists of the version of the data, the shards, the key
// prefixes of all routes, and the role of this Redis in a migration. [Layout] keeps instances with an outdated layout
// from changing notices.
//
// # The guard
//
// The hash notifier:meta and the set notifier:routes contain the layout, and each shard has a copy. Every instance
// keeps a digest of the layout in memory, and sends it with scripts that change notices. If the digest of the shard
// differs, such a script writes nothing. The instance then reads the layout and sends the script again ([Layout.Call]).
// So a change of the layout needs no lock and no restart.
//
// # Old shards
//
// A reshard (a change of the number of shards) creates new shards, and moves the notices to them while deliveries
// continue. All shards are numbered, the old ones first. The code calls this number a place. [Store.Where] returns the
// places of notices.
//
// Notices leave an old shard in batches:
//
//   - [Layout.MoveOut] moves the notices of a batch to a separate hash of the old shard.
//   - [Layout.MoveIn] stores them in the new shard.
//   - [Layout.MoveEnd] deletes the batch in the old shard.
//
// Package move decides when to move a batch. A call that needs a notice of an unfinished batch completes the batch
// first ([Layout.Finish]).
//
// # Migrations
//
// A migration moves all notices to another Redis. Meanwhile each of the two has a role ([Side]), which says which calls
// it accepts.
package store
