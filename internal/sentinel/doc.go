// Package sentinel finds the master that sentinels name, and lets go of the old one
// as soon as any of them says that there is a new one.
//
// # What holds
//
// A Watch asks all sentinels that it knows: those it was given, and those that they
// know. A master comes with the epoch of the failover that made it one; the highest
// epoch holds, whichever sentinel says so. So when some of the sentinels are cut off
// together with the old master and go on naming it, one that is not is enough.
//
// At a switch all connections to the old master are closed, those in use as well: what
// is under way on them fails, and nothing that the old master answers afterwards is
// heard. Sentinels tell of a switch at once, over a subscription; each is asked
// besides, once a second, or four times a second where it takes no subscription.
//
// Less formally: from half a second after a sentinel has switched, nobody who can
// reach that sentinel takes an answer of the old master for good. Nothing is known of
// a switch that no sentinel within reach knows of.
//
// # Rest
//
// From the moment a sentinel has begun a failover nothing is sent to the master: its
// connections are closed and none is made, whether it answers or not. One that was killed
// and is started again meanwhile would be used else until a sentinel sees that its replica
// has been promoted, which is up to a second after that was; and one that is replaced by
// hand takes writes in that second which are lost. The rest ends when
//
//   - any sentinel names another master of a later epoch, which is the switch;
//   - the sentinel that has begun the failover has given it up, or has ended: its address
//     takes no connection, or closes it;
//   - restMost is over. So long a sentinel is waited for that is only silent: it may be slow,
//     or cut off from here, and go on with its failover.
//
// A failover that was begun nearly always ends in a switch. A master that sentinels only
// take for dead is still used: they may find it alive before any has begun one.
//
// Each sentinel tells of its own failovers alone. What it tells by itself is a reason to
// ask; what it answers, SENTINEL MASTER's flag failover_in_progress, decides: so a Watch
// that begins amid a failover rests as soon as that sentinel has answered. Of a failover
// whose sentinel is out of reach, or does not let SENTINEL MASTER be asked, nothing is
// known before the switch.
//
// # Sentinels set up anew
//
// A master of no higher epoch is taken only if more than half of the sentinels that ever
// answered name it and none names the present one, as when sentinels are set up anew.
package sentinel
