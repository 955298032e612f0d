// Package layout defines the structure of the service's data in one Redis, and refuses writes by an
// instance that does not know it. The structure is the version, the shards, the prefixes of
// notices, and the role of this Redis in a migration.
//
// # The guard
//
// notifier:meta and a copy in each shard hold the layout; see meta.go. Each instance knows a digest
// of the copy. A guarded script compares both in the same step as its writes, and changes nothing
// if they differ. The instance then reads the layout and sends the script again ([Layout.Knowing]).
//
// # Places
//
// A place is a current shard, or an old shard that a reshard has replaced. [Layout.Where] returns
// the place of a notice. Notices leave old shards in batches, in three steps: [Layout.MoveOut],
// [Layout.MoveIn], [Layout.MoveEnd]. They are in this package, because a call that needs a notice
// of a started batch completes the batch first ([Layout.Finish]). Package move decides when to
// start a batch.
//
// # Sides
//
// During a migration to another Redis, the layout of each of the two says which calls it accepts:
// see [Side].
package layout
