// Package reconcile makes events punctual and misses nothing.
//
// Redis sends an expired event when it deletes a key, which may be seconds or
// minutes after the key's time; but it deletes on the spot what somebody
// accesses. So for each partition (route and shard) a Sweeper sleeps until the earliest
// timer is due and touches it. The event triggers the claim (packages listener and
// dispatch). Notices that no instance has claimed one grace later are swept, which covers
// lost events. Notices without a timer, and all notices while no events arrive, are swept
// when they are due.
//
// # What it may assume
//
// That the shadow zset holds every pending notice. It assumes nothing of the
// events it provokes, nor of the wake messages that tell it of earlier
// notices: those only save time. While it is told that a subscription lives, it
// looks at an idle route every ten seconds, otherwise every second. Sweepers of one
// process that have nothing to wait for look at the same instants and share calls
// ([Looks]), so that what an instance sends while it is idle hardly grows with its
// routes; a look that something is due for waits for no other.
//
// Due times are by Redis's clock. The sweeper keeps an estimate of how far that
// is from its own, good to half a round trip; a key that was touched too early
// is still there, which the touch reports, and is touched again.
//
// The Janitor does what is not urgent: it forgets settled notices that are too
// old, follows which routes are paused, and moves notices to the prefixes under
// which they belong.
//
// # Many instances
//
// One instance is preferred for a partition ([SweeperOptions.Rank]): it looks and
// touches. The next one looks once a grace, and some ms later, while something is
// due there, the one after it once in two graces, and so on, and all once a minute
// else; what they find unclaimed then, they sweep. So a partition whose preferred
// instance has died is late by the grace and 20 ms at most, by two graces if the
// next one has died too, and a backlog is worked off by all. Events are heard
// by all, and each notice is claimed by the one that is preferred for its key, or,
// where some fall due together, for the first one's: so the slots of all are used
// alike. Where instances have a route otherwise than
// others, or not at all, or the fleet is not known, all are preferred for it.
//
// # Instances of different configurations
//
// While a configuration is rolled out, and after it was rolled back, instances
// live side by side that give the same key to different routes: app to one, app:m
// to another. A notice lies under the prefix of the route that its writer's
// configuration gave it. These rules keep it one notice, delivered once, whoever
// is asked:
//
//  1. Every prefix that any configuration ever had is registered, in each shard,
//     before anything is written under it, and stays so. Whoever writes, knows all
//     of them at that moment: package store's scripts refuse one who does not,
//     who then learns and writes again.
//  2. Who makes a notice looks under every registered prefix that may hold its key,
//     in the same script: shorter ones, and longer ones that are no route of its
//     own. What is there is the notice: it is answered, or replaced where it lies.
//  3. Who does not find a notice under its own prefix, to read or to change it,
//     looks under all others that cover the key, in one script, and follows it if it
//     is moved meanwhile. So do the keys of plain timers that may be adopted.
//  4. A claim is named by the key alone, so what is claimed under one prefix is
//     claimed under all. A notice is settled where it was claimed, and is not moved
//     meanwhile.
//  5. Each instance hints at, sweeps and delivers what lies under its own prefixes,
//     by that route's settings, even where another configuration would deliver it by
//     other ones: for a few minutes of a rollout a notice goes where either says.
//     An event that hints at a notice under a prefix where it does not lie finds
//     nothing; the instance where it does hears it too, or sweeps it a grace later.
//  6. Instances say every few seconds which prefixes they serve, and take it back
//     when they stop. What lies under a prefix that another one serves is left to
//     that one. What nobody serves is moved to the route that covers it, soon after
//     the last one who did has said so or has said nothing for 15 s, and within a
//     second or two of a schedule call whose wake names such a prefix.
//  7. What lies under a route's prefix and belongs to a longer one's (it was
//     scheduled before that was added, or by an instance without it) is moved there at
//     the start, again and again while instances of other configurations live, and
//     once after the last of them has gone.
//  8. A move drops nothing that differs. Of two notices of a key, which only writers
//     that keep none of this make (copies of an older deploy/schedule.lua), one that
//     is the same as the other is dropped, a pending one takes the place of a settled
//     one, and otherwise the second waits, counted as an orphan, until the first has
//     ended.
//
// Rules 1 to 4 hold at every moment. 6 and 7 save time and may be late or wrong,
// for example about an instance that stands still: that costs moves, no notice.
package reconcile
