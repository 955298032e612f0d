// Package layout defines the structure of the data in one Redis: its version, its shards, the
// prefixes of notices, and the role of this Redis in a migration. It guards the scripts of the
// packages above it.
//
// # The guard
//
// notifier:meta and a copy in each shard hold the layout; see meta.go. A guarded script compares
// a digest of the shard's copy with the digest that its instance knows, in the same step as its
// writes. If they differ, the script changes nothing. The instance then reads the layout and sends
// the script again ([Layout.Knowing]). So no instance writes into a Redis whose layout it has not
// read.
//
// # Places
//
// A place is a shard in use, or an old shard that a reshard has replaced. [Layout.Where] returns the
// place of a notice. Notices leave old shards in batches, in three steps: [Layout.MoveOut],
// [Layout.MoveIn], [Layout.MoveEnd]. If a call needs a notice of a started batch, its instance first
// completes the batch ([Layout.Finish]). Therefore these steps are in this package. Package move
// decides when to start a batch.
//
// # Sides
//
// During a migration to another Redis, the layout of each Redis says which calls it accepts: see
// [Side].
package layout
