// Package move moves notices while they are delivered: to new shards of the same Redis ([Reshard]),
// or to another Redis ([Migrate]).
//
//	          source                            target
//	export    a batch of notices leaves
//	          its sets for one hash
//	import                                      the batch enters the sets of its shard
//	commit    the hash is deleted
//
// # Guarantees
//
// A mover can be killed at any step: no notice is lost or duplicated, and the next mover continues.
// Delivery never waits for a mover, because notices are claimed and settled where they are stored.
// Claimed notices are not moved until their claim ends. A call reports a notice as missing only if
// neither the source nor the target has it.
//
// # Reshard
//
// A reshard never changes an existing shard. It creates shards with unused hash tags and makes them
// current in one write to notifier:meta. Old shards keep their numbers and stay in service: their
// notices are claimed, delivered, settled and changed in place. Only new notices go to the new
// shards. So a mover has no deadline, and a killed mover delays no notice.
//
// No write is atomic across hash slots, and no instance is assumed to know the change in time.
// Each place has a copy of the layout, and scripts compare its digest in the same step with their
// writes (the guard of package layout). The first call on a changed place writes the new layout
// there. After that an instance with the old layout is refused, reads notifier:meta and sends its
// call again. It can still settle its claims, because the old shards stay.
//
// A call that creates a notice must not create a second one. So it first checks the old shards that
// can hold its key, oldest first, and then its own shard. The check is a guarded script: after it has
// run, no instance adds a notice to that old shard. Other calls check in the same order. Once
// all old shards are empty, these checks stop. Outside a cluster the first instance that finds them
// empty records it in each place, as a part of the state that the guard compares. In a cluster each
// instance checks for itself.
//
// # Steps
//
// A [Mover] moves notices in batches:
//
//	export   in the source: the notices leave their sets for one hash, with the number of the
//	         batch and its target
//	import   in the target: the notices enter its sets and the number is stored, in one step;
//	         a number that is not above the last one changes nothing
//	commit   in the source: the hash is deleted
//
// A kill between export and import leaves the notices in the hash. Every check of the source reads
// the hash. A call that finds its notice in the hash completes the batch first, and so does a mover
// that cannot export because of the hash. The instances that empty old shards do the same. A kill between import and commit
// leaves the hash, and the repeated import changes nothing, however late it comes. A source has one
// batch at a time, so the last number identifies all batches that have arrived.
//
// Claimed notices, those with an expired claim and those that await a report stay until they are
// settled, and are moved later. A plain Redis producer with an old copy of deploy/schedule.lua can
// still write to an old shard. An instance finds such a notice within a minute and moves it. If the
// target has a finalized notice of the same key, the moved one replaces it. If the target has a
// pending one, both stay where they are and both are delivered.
//
// Timers have the names of the notices, so a reshard does not touch them.
//
// Tombstones (package store) are copied to the new shards before notices move, and then deleted from
// the old ones. So a schedule call that checks the old shards first finds them at any time.
//
// # Lost writes
//
// A Redis can lose its last writes, and with them any of these steps. If it loses an export, the
// notices are in the source again, and the import changes nothing, because it checks that the hash
// exists. The batch's number is not used again, because numbers are never below the time in µs. If
// Redis loses the record that the old shards are empty, the guard refuses calls that rely on it. If
// notifier:meta loses the new shards, an instance that knows them announces them again.
//
// The nodes of a cluster lose writes independently. A notice can then be in both places, and the
// target's counts; or in neither, unless replicas have confirmed the import.
//
// # Migration
//
// Two servers share no atomic step, and no instance connects to both. A [Migrate] takes the same
// steps between the shards of the two. The export also deletes the timer, and the import sets it. The
// instances of each side learn its state ([layout.Side]) from the guard. A mark in a shard says that a
// notice is on the other side, or on its way there.
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
// Both sides refuse calls from the start of the last pass until the new side opens. Earlier passes
// are repeated until one of them moves few notices. So this time depends only on how many notices
// were scheduled since then, not on how many have moved: at 1,000 a second it is below a second.
// [Migrated] reports it.
//
// Both sides claim and settle all the time, and each notice is on one side or on its way. An instance
// cannot complete a batch of a killed mover, since it does not know the other server. The next mover
// does. For that reason notices that are due soon are not exported.
//
// Tombstones are copied at the start of each pass. The old side keeps its own.
//
// Plain timers are adopted on either side at any time. A timer or notice that a plain Redis producer
// writes on the old side, after its notice has left, is a newer notice. It replaces the older one
// when it is moved.
//
// # Changing direction
//
// At any moment at most one side accepts calls: the one that is open, leaving or opened. A leaving
// side and an opened side follow the same rule: their marks name every notice of the other side, and
// they accept all other calls. So a migration in the other direction needs no new marks. It only
// changes the states:
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
// A mover locks both sides. A mover that is paused for longer than its lock lasts can continue
// next to another one, which may have changed the direction. So each mover starts with a new epoch
// on both sides. States, marks and exports need the mover's epoch; imports and commits compare the
// number of the batch.
package move
