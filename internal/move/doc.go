// Package move moves notices to other shards while they are delivered. A shard is a set of Redis keys that contains a
// part of the notices. [Reshard] moves notices to new shards of the same Redis, for example to change the number of
// shards. [Migrate] moves them to another Redis.
//
// A process that moves notices is called a mover. It moves them in batches, in three steps:
//
//	step    shard   change
//	export  source  the notices leave the shard's sorted sets for one hash, the batch
//	import  target  the notices enter the sorted sets of their new shard
//	commit  source  the hash is deleted
//
// # Guarantees
//
//   - No notice is lost or duplicated if a mover is killed at any step. The next mover continues.
//   - Delivery continues during a move: a notice is claimed and settled in the shard that stores it. A claimed notice
//     moves after its claim has ended. Only the notices of an unfinished batch wait.
//   - A call reports a notice as missing only if neither the source nor the target has it.
//
// A failover or crash of Redis may undo the last writes. Lost steps are then repeated. But if the source and the target
// are on different servers, these lose writes independently, and a notice can be missing in both. To prevent that,
// the option Confirm sets the durability that an import needs before the source deletes the batch.
//
// # Unfinished batches
//
// A source has at most one batch at a time. If a mover is killed after an export, the batch remains in the source. In a
// reshard, an instance completes it, at once if a call needs one of its notices. In a migration, only the next mover
// can, because instances do not know the other Redis. Each batch has a number. The target stores the number of the last
// batch, so a second import of it changes nothing.
//
// # Reshard
//
// A reshard creates shards and makes them current in one write to the hash notifier:meta. From then on, new notices go
// to the new shards. Instances learn of the change at different times, but one that does not know the new shards cannot
// write new notices (see the guard in package store). The old shards stay in service until they are empty. A call
// looks for a notice in the old shards first, so it does not create a second notice of a key that an old shard has.
//
// # Migration
//
// A migration moves notices between two Redis servers, called sides. Only the mover connects to both. Both sides
// deliver their notices all the time. Each side has a state ([store.Side]), which decides whether it accepts calls
// that create or change notices, or refuses them with [wire.ErrMoved]. The states follow each other in this order:
//
//	old side  new side  calls that create or change notices
//	open      coming    the old side accepts all
//	leaving   coming    the old side accepts them, except on notices that have left
//	left      coming    both sides refuse them, while the last unclaimed notices move
//	left      opened    the new side accepts them, except on notices that have not arrived
//	left      open      the new side accepts all
//
// The mover makes at most ten passes over the notices, until a pass moves only few. From the start of the last pass
// until the new side opens, both sides refuse such calls. [Migrated] reports how long that took.
//
// A migration can be reversed at any time, by a call of [Migrate] with the sides exchanged.
//
// # Producers that write to Redis
//
// A producer that writes to Redis directly may still write to the source, and such a notice is moved later. If the
// target has a notice of the same key by then, both may be delivered.
package move
