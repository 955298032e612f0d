// Package move moves notices while they are delivered: to new shards of the same Redis ([Reshard]),
// or to another Redis ([Migrate]). The process that moves them is a mover.
//
//	          source                            target
//	export    a batch of notices leaves
//	          its sets for one hash
//	import                                      the batch enters the sets of its shard
//	commit    the hash is deleted
//
// # Guarantees
//
//   - Lost or duplicated: no notice, even if a mover is killed at any step. The next mover continues.
//   - Delivery never waits for a mover: notices are claimed and settled where they are stored. Claimed
//     notices move after their claim has ended.
//   - A call reports a notice as missing only if neither the source nor the target has it.
//
// # Reshard
//
// A reshard never changes an existing shard. It creates shards with unused hash tags and makes them
// current in one write to notifier:meta. Only new notices go to the new shards. Old shards keep their
// numbers and stay in service, so a killed mover delays no notice.
//
// Not all instances learn of the change at the same time. Each shard has a copy of the layout, and
// scripts compare the copy's digest with the digest that their instance knows, in the same step as
// their writes (the guard of package layout). The first call on a shard writes the new layout there.
// From then on, an instance with the old layout is refused, reads notifier:meta and sends its call
// again. It can still settle its claims, because the old shards stay.
//
// A call that creates a notice must not create a second one. So it first checks the old shards that
// can hold its key, oldest first, and then its own shard. The check is a guarded script: after it has
// run, no instance adds a notice to that old shard. Other calls check in the same order. These checks
// stop when all old shards are empty. Outside a cluster, the first instance that finds them empty
// records it in each shard, in the state that the guard compares. In a cluster each instance checks
// for itself.
//
// # Steps
//
//	export   in the source: the notices leave their sets for one hash, with the number of the
//	         batch and its target
//	import   in the target: the notices enter its sets and the number is stored, in one step;
//	         a number that is not above the last one changes nothing
//	commit   in the source: the hash is deleted
//
// A source has one batch at a time. A kill after the export leaves the hash. Every check of the source
// reads it. A call that finds its notice there, the next mover, and an instance that empties old
// shards complete the batch first. If it was imported already, the repeated import changes nothing.
//
// Claimed notices, notices with an expired claim and notices that await a report stay until they are
// settled. A plain Redis producer with an old copy of deploy/schedule.lua may still write to an old
// shard: an instance finds such a notice within a minute and moves it. If the target has a finalized
// notice of the same key, the moved one replaces it. If it has a pending one, both stay where they are
// and both are delivered.
//
// Timers have the names of the notices, so a reshard does not touch them. Tombstones (package store)
// are copied to the new shards before notices move, and are deleted from the old ones afterwards. So a
// schedule call, which checks the old shards first, finds them at any time.
//
// # Lost writes
//
// Redis can lose its last writes, and with them any of these steps. If it loses an export, the notices
// are in the source again, and the import changes nothing, because it checks that the hash exists. The
// batch's number is not used again, because numbers are never below the time in µs. If it loses the
// record that the old shards are empty, the guard refuses calls that rely on it. If notifier:meta loses
// the new shards, an instance that knows them announces them again.
//
// The nodes of a cluster lose writes independently. A notice can then be in both places, and the
// target's counts; or in neither, unless replicas have confirmed the import.
//
// # Migration
//
// A migration takes the same steps between the shards of two Redis. Only the mover connects to both.
// The export also deletes the timer, and the import sets it. The guard tells instances the state of
// their side ([layout.Side]). A mark in a shard says that a notice is on the other side, or on its way
// there:
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
// Both sides deliver all the time. Both refuse calls from the start of the last pass until the new side
// opens, which [Migrated] reports. Earlier passes are repeated until one moves few notices. So this
// time depends on how many notices were scheduled since the previous pass, and not on how many
// have moved: at 1,000 a second it is below a second.
//
// An instance cannot complete a batch of a killed mover, since it does not know the other server. The
// next mover does. For that reason notices that are due soon are not exported.
//
// Tombstones are copied at the start of each pass. The old side keeps its own. Plain timers are
// adopted on either side at any time. A timer or notice that a plain Redis producer writes on the old
// side, after its notice has left, is a newer notice: it replaces the older one when it is moved.
//
// # Changing direction
//
// A migration can be reversed at any time. At most one side accepts calls: the one that is open, leaving
// or opened. The marks of a leaving or opened side name every notice of the other side, and it accepts
// all other calls. So a reversed migration needs no new marks. It only changes the states:
//
//	leaving, coming   becomes   opened, left    the first side accepts calls all the time
//	left, coming      becomes   opened, left    the first side has all marks
//	left, opened      becomes   coming, leaving
//
// The two states are written one after the other. Between the writes at most one side accepts calls,
// so after a kill the next mover can go on in either direction.
//
// Marks are removed only while no call reads them: on a side that is open, or that refuses calls.
// Replacing all marks instead would be correct too, but both sides would refuse calls until it ended.
//
// # Concurrent movers
//
// A mover locks both sides. A mover that is paused for longer than its lock lasts may continue next to
// another one, which may have changed the direction. So each mover starts with a new epoch on both
// sides. States, marks and exports need the mover's epoch. Imports and commits compare the number of
// the batch.
package move
