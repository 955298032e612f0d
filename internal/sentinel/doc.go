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
// A master of no higher epoch is taken only if more than half of the sentinels that ever
// answered name it and none names the present one, as when sentinels are set up anew.
package sentinel
