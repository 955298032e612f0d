// Package layout knows what the data in one Redis look like: their version, their shards, the
// prefixes under which notices may be, and how this Redis stands to one that notices move to.
// It guards the scripts of the packages above it.
//
// # The guard
//
// notifier:meta and a copy in each shard hold the layout; see meta.go. A guarded script
// compares a digest of the copy with the one that its instance knows, in the same step with
// its writes. An instance whose script is refused learns the layout and sends the script
// again ([Layout.Knowing]). So no instance writes into a Redis that it has not read.
//
// # Places
//
// A place is a shard, or a former shard that a reshard has replaced. Notices leave former
// shards in batches: [Layout.MoveOut], [Layout.MoveIn], [Layout.MoveEnd]. Any instance that
// looks for a notice completes the batch that it meets ([Layout.Finish]), so these steps are
// here and not in package move, which decides when they are made. [Layout.Where] returns the
// place of a notice.
//
// # Sides
//
// While notices move to another Redis, the layout of each says which calls it takes: see
// [Side].
package layout
