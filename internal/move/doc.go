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
// # To another Redis
//
// Two servers share no step, and no instance knows both. A [Migrate] takes the same
// steps, out, in and end, between the shards of the two; out deletes the timer and in
// sets it. What else holds is that each side knows, by the same guard, how it stands to
// the other ([store.Side]), and which notices are on the other side:
//
//	old side   new side
//	open       coming    the new one takes no calls that make or change notices
//	leaving    coming    out notes what leaves; calls about that are ErrMoved
//	left       coming    neither side takes calls; what is not claimed moves
//	left       opened    the new one has noted what is still to come, and refuses
//	                     calls about that; in takes it off
//	left       open      nothing is to come
//
// So a call that finds nothing says so only where that is certain. Both sides claim and
// settle all the while, and each notice is at one of them, or on its way. What is on its
// way when a mover is killed is brought in by the next one, since no instance can do it:
// therefore what is due soon does not set out.
//
// Plain timers are adopted on either side at any time. What a producer who knows nothing
// but Redis sets or writes on the old side after its notice has left is a notice of its
// own, which replaces the older one when it is moved.
package move
