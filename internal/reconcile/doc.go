// Package reconcile makes events punctual and misses nothing.
//
// Redis sends an expired event when it deletes a key, which may be seconds or
// minutes after the key's time; but it deletes on the spot what somebody
// accesses. So for each route and shard a Sweeper sleeps until the earliest
// timer is due and touches it. Whatever nobody has claimed one grace later, it
// has claimed itself: that covers every event that was lost, and everything
// that has no timer.
//
// # What it may assume
//
// That the shadow zset holds every pending notice. It assumes nothing of the
// events it provokes, nor of the wake messages that tell it of earlier
// notices: those only save time. While it is told that a subscription lives, it
// looks at an idle route every ten seconds, otherwise every second.
//
// Due times are by Redis's clock. The sweeper keeps an estimate of how far that
// is from its own, good to half a round trip; a key that was touched too early
// is still there, which the touch reports, and is touched again.
//
// The Keeper does what is not urgent: it forgets settled notices that are too
// old, moves notices of prefixes that the configuration no longer has, or that a
// longer prefix covers now, and follows which routes are paused.
package reconcile
