// Package sentinel finds the current Redis master by asking Redis Sentinels. When any sentinel reports a new master, it
// closes the connections to the old one, so that nothing more is written to a replaced master.
//
// # Choice of the master
//
// A [Watch] asks the configured sentinels, and all others that any of them names. A sentinel reports the address of the
// master, and an epoch, a number that each failover increases. The Watch changes to a master with a higher epoch. So
// one reachable sentinel that has switched is enough, even if others are cut off together with the old master and still
// name it. If only unreachable sentinels have switched, the switch is not noticed.
//
// The epochs of reinstalled sentinels start at 0. So a master whose epoch is not higher is accepted under two
// conditions: more than half of the sentinels that ever answered name it, and none names the present master. Only
// answers of the last five seconds count. The same rule applies if no sentinel reports an epoch, because the user may
// not send SENTINEL MASTER.
//
// # A switch
//
// Sentinels publish a switch at once over a subscription. In addition, the Watch asks each sentinel once a second, or
// four times a second if it accepts no subscription. At a switch, all connections to the old master are closed,
// including those in use. Calls in flight fail, and later answers of the old master are never read. Normally this
// happens within half a second of the sentinel's switch.
//
// # During a failover
//
// A sentinel promotes the replica first and names it as the master later. In between, up to a second, the old master
// could confirm writes that would then be lost. So while a sentinel reports that it has begun a failover, the Watch
// closes its connections and opens no new ones to the master. This time is called a rest.
//
// A rest ends with the switch, or when the failover seems to have ended without one, usually after 15 s at most. A
// master that sentinels only suspect to be down is still used, because they may find it alive.
//
// Each sentinel reports only its own failovers. So there is no rest if the sentinel that began the failover is
// unreachable, or does not let its user send SENTINEL MASTER.
package sentinel
