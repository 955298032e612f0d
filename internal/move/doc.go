// Package move moves notices to other shards while they are delivered: to new shards of the same Redis ([Reshard]), or
// to the shards of another Redis ([Migrate]). The process that moves them is called a mover. It moves batches in three
// steps:
//
//	          source                            target
//	export    notices leave their zsets
//	          for one hash, the batch
//	import                                      the notices enter the zsets of their shard
//	commit    the hash is deleted
//
// # Guarantees
//
//   - Lost or duplicated: no notice, even if a mover is killed at any step. The next mover continues.
//   - Delivery never waits for a mover: a notice is claimed and settled in the shard that stores it. A claimed notice
//     moves after its claim has ended.
//   - A call reports a notice as missing only if neither the source nor the target has it.
//
// # Reshard
//
// A reshard never changes an existing shard. It creates shards with unused hash tags and makes them current in one
// write to the hash notifier:meta. From then on, new notices go to the new shards. Old shards keep their numbers and
// stay in service until they are empty. So a killed mover delays no notice.
//
// Instances learn of the change at different times. The guard (package layout) stops an instance that would still
// write new notices to old shards. Each shard has a copy of the layout. Every script receives the layout's digest from
// its caller, and refuses to write if the digest differs from that of the copy. The refused instance reads
// notifier:meta and sends its call again. The first call on a shard writes the new layout there. An instance with the
// old layout can still settle its claims.
//
// A call that creates a notice must not create a second notice of the same key. So the call first checks the old
// shards that may contain the key, oldest first, and then the key's new shard. The check is a guarded script too:
// after it has run, no instance adds a notice to that old shard. All other calls check shards in the same order.
//
// The checks stop when all old shards are empty. Outside a cluster, the first instance that finds them empty stores
// that fact in each shard, where the guard compares it. In a cluster each instance checks for itself.
//
// # Steps
//
//	export   in the source: moves notices from their zsets to one hash, with the number of the
//	         batch and its target
//	import   in the target: adds the notices to its zsets and stores the number, in one script;
//	         a number that is not above the last one changes nothing
//	commit   in the source: deletes the hash
//
// A source has at most one batch at a time. If the mover is killed after an export, the hash remains. Then the batch
// is completed by the first of these: a call that looks for one of its notices, the next mover, or an instance that
// empties old shards. If the batch was imported already, the second import changes nothing.
//
// Three kinds of notices stay in the source until they are settled: claimed ones, those with an expired claim, and
// those that wait for the report of a consumer.
//
// A producer that writes to Redis directly, with an old copy of deploy/schedule.lua, may still write to an old shard.
// An instance finds such a notice within a minute and moves it. If the target has a finalized notice of the same key,
// the moved one replaces it. If the target has a pending one, both stay and both are delivered.
//
// A reshard does not touch timers, because they are named after their notices. It copies tombstones (package store) to
// the new shards before the notices move, and deletes them from the old shards afterwards. So schedule calls find them
// at any time.
//
// # Lost writes
//
// A failover or crash of Redis can undo the last writes, and so any of these steps:
//
//   - An export is undone: the notices are in the source again, and the hash is not. The import checks that the hash
//     exists, and changes nothing. The number of the batch is not used again, because a number is at least the present
//     time in µs.
//   - The record that the old shards are empty is undone: the guard refuses calls that rely on it.
//   - The write of the new shards to notifier:meta is undone: an instance that knows the new shards writes them again.
//
// The nodes of a cluster lose writes independently. A notice can then be in both shards, and the target's copy counts.
// Or it can be in neither, unless replicas have confirmed the import ([Options.Confirm]).
//
// # Migration
//
// A migration takes the same steps between the shards of two Redis, called sides. Only the mover connects to both. The
// export also deletes the timer, and the import sets it. Each side has a state ([layout.Side]), which the guard
// compares too. A mark in a shard says that a notice is on the other side, or on its way there:
//
//	old side   new side
//	open       coming    the new side refuses calls that create or change notices
//	leaving    coming    an export marks its notices on the old side, which refuses calls on
//	                     marked notices with ErrMoved
//	left       coming    both sides refuse calls; unclaimed notices move
//	left       opened    the new side has marks of the notices that have not arrived, and
//	                     refuses calls on them; an import removes the marks
//	left       open      all notices have arrived
//
// Both sides deliver all the time. The mover makes several passes over the notices, until a pass moves only few. From
// the start of the last pass until the new side opens, both sides refuse calls. [Migrated] reports how long that took:
// below a second if 1,000 notices a second are scheduled, however many have moved.
//
// An instance cannot complete the batch of a killed mover, because it does not know the other Redis. Only the next
// mover can. So notices that are due soon are not exported.
//
// Tombstones are copied at the start of each pass. The old side keeps its own. Plain timers, which clients set without
// the API, are adopted on either side at any time. A direct producer may write a notice on the old side after one of
// the same key has left. The later notice then replaces the earlier one when it is moved.
//
// # Changing direction
//
// A migration can be reversed at any time. At most one side accepts calls: the side that is open, leaving or opened.
// The marks of a leaving or opened side name every notice of the other side. So a reversed migration needs no new
// marks. It only changes the states:
//
//	leaving, coming   becomes   opened, left    the first side accepts calls all the time
//	left, coming      becomes   opened, left    the first side has all marks
//	left, opened      becomes   coming, leaving
//
// The mover writes the two states one after the other. Between the writes at most one side accepts calls. So if the
// mover is killed there, the next one can go on in either direction.
//
// Marks are removed only while no call reads them: on a side that is open, or that refuses all calls.
//
// # Concurrent movers
//
// A mover locks both sides. A mover that is paused for longer than its lock lasts may continue while another mover
// runs, which may have changed the direction. So each mover starts with a new epoch, a higher number, on both sides.
// Scripts that change states or marks, or export notices, refuse a mover with an older epoch. Imports and commits
// compare the number of the batch instead.
package move
