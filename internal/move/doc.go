// Package move brings notices from one place to another while they are delivered:
// from shards that others have replaced to those, and from one Redis to another.
//
// # Places
//
// A reshard never changes what a shard is: it puts other shards, with hash tags that
// were never used, in the place of those there are, all in one write of notifier:meta.
// The former ones keep their numbers, their sweepers and their scripts: what lies there
// is claimed, delivered, settled and changed where it lies, and nothing waits for the
// move. Only new notices go to the new shards. So a mover has no deadline, and one that
// is killed leaves nobody late.
//
// # Who knows what
//
// Nothing is atomic between slots, and nobody is trusted to know of the change. Each
// place has its copy of the layout; the scripts compare its digest in the step in which
// they write (the guard of package store). Whoever comes to a place first after the
// change gives it the new layout, which cannot be taken back: the number of all places
// only grows. From then on an instance that knows the former layout is refused there,
// reads notifier:meta, grows, and repeats; the settle of what it had claimed counts,
// since the place has stayed.
//
// A call that makes a notice must not make a second one. It looks into the former
// shards in which its key would have lain, the oldest first, and only then goes to its
// own shard. That look is a script under the guard: once it was let through, nobody can
// put anything into that place any more, so that what is not there never will be. All
// other calls go the same way. When all former places are empty, the looks cease, and the
// calls cost what they did before: the first instance that sees it notes that in each
// place, as part of what the guard compares; in a cluster each sees it for itself.
//
// # The steps
//
// A [Mover] takes some notices at a time:
//
//	out   in the former shard: they leave their sets, and stand in one hash, with the
//	      number of the batch and where it goes
//	in    in the other shard: they are put into its sets, and the number is noted,
//	      in one step; a number that is not above the last one does nothing
//	end   in the former shard: the hash goes
//
// A kill between out and in leaves them in the hash, where every look finds them; who
// finds them, or finds the hash in its way, takes the missing steps, and so does each
// instance that looks after the former shards. A kill between in and end leaves the
// hash, and in does nothing the second time, however late it comes. There is one batch
// at a time for a former shard, so that one number tells all.
//
// A Redis that comes back without its last writes may have forgotten any of these steps,
// and who took them does not know. A batch whose out was forgotten is not on its way, so
// that in does nothing; its number is never given again, since numbers are at least the
// time. Who relies on it that former places are empty is refused where that has been
// forgotten. Shards that notifier:meta does not have any more are announced once more by
// whoever knows of them. The nodes of a cluster forget apart from each other: there a
// notice may lie in both places, and what lies where it went holds, or in neither, unless
// in was confirmed by replicas.
//
// What is claimed, or was and has lapsed, or awaits a report, stays for its settle, and
// goes when that has come. What plain Redis producers with an old deploy/schedule.lua
// leave in a former shard is seen within a minute and goes the same way; if the same
// key is in use by then, what is pending takes the place of what has ended, and of two
// that are pending both are delivered, each where it is.
//
// Timers have the names of the notices and stay where they are.
//
// Tombstones (package store) are copied before notices move, and deleted where they were
// once they have been copied, so that a schedule call that looks into the former shards
// and then into its own finds them at any time.
//
// # To another Redis
//
// Two servers share no step, and no instance knows both. A [Migrate] takes the same
// steps, out, in and end, between the shards of the two; out deletes the timer and in
// sets it. Each side knows, by the same guard, how it stands to the other ([layout.Side]).
// A mark in a shard says that a notice is on the other side, or on its way.
//
//	old side   new side
//	open       coming    the new one takes no calls that make or change notices
//	leaving    coming    out marks each notice that leaves; calls about those are ErrMoved
//	left       coming    neither side takes calls; unclaimed notices move
//	left       opened    the new one has marks of the notices that are still to come, and
//	                     refuses calls about those; in removes the mark
//	left       open      nothing is to come
//
// So a call that finds nothing says so only where that is certain. Both sides claim and
// settle all the while, and each notice is on one of them, or on its way. A batch that is
// on its way when a mover is killed is brought in by the next one, since no instance can do
// it: therefore notices that are due soon do not set out.
//
// Tombstones are copied at the beginning of each pass, the last of which is while neither
// side takes calls. The old side keeps its own.
//
// Plain timers are adopted on either side at any time. A timer or notice that a plain Redis
// producer writes on the old side after its notice has left is another notice. It
// replaces the older one when it is moved.
//
// # Turning round
//
// At each moment one side at most takes calls: the one that is open, leaving or opened. In
// the second line of the table and in the fourth the rule for its calls is the same: its
// marks name every notice of the other side, and all other calls are taken. So a migration
// the other way needs no new marks. It gives the sides other names:
//
//	leaving, coming   becomes   opened, left    the first side stays in service
//	left, coming      becomes   opened, left    the side that was closed last has all marks
//	left, opened      becomes   coming, leaving
//
// The side that is to take calls changes last where it opens, and the one that takes none
// changes first where it closes, so that a kill between the two leaves a pair of the table.
// Marks are removed only while no call reads them: on a side that is open, or takes no
// calls. To remove all marks and write those of the other side would do as well, but both
// sides would refuse calls as long as that takes.
//
// # Several movers
//
// One mover at a time holds both sides. One that is stopped for longer than its hold, and
// then goes on, may meet another that has turned round. So each mover begins with a new
// epoch on both sides. Sides and marks are changed, and notices taken out, only under the
// epoch that the mover knows; in and end compare the number of the batch.
package move
