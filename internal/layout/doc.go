// Package layout describes how the service's data is arranged in one Redis. It prevents writes by instances that do
// not know the current layout: its version, the shards, the prefixes that have notices, and the role of this Redis in
// a migration.
//
// # The guard
//
// The key notifier:meta contains the layout, and each shard contains a copy; see meta.go. Every process has a digest
// of the copy. A guarded script writes nothing if this digest differs from that of its shard. The process then reads
// the layout and sends the script again ([Layout.Knowing]). So a change takes effect at once, without a lock or a
// restart.
//
// # Places
//
// A place is the number of a shard: a current one, or an old one that a reshard has replaced. [Layout.Where] returns
// the place of a notice.
//
// Notices leave old shards in batches. Each batch takes three steps: [Layout.MoveOut], [Layout.MoveIn] and
// [Layout.MoveEnd]. Package move decides when to start a batch. A call that needs a notice of a started batch first
// completes that batch ([Layout.Finish]).
//
// # Sides
//
// During a migration to another Redis, each of the two has a role, called side. It says which calls this Redis
// accepts: see [Side].
package layout
