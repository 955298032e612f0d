// Package sentinel finds the current master with the help of Redis Sentinels. It closes the
// connections to the old master as soon as any sentinel reports a new one.
//
// # Guarantees
//
// Half a second after a sentinel has switched to a new master, no process that can reach this
// sentinel accepts answers of the old master. A switch that no reachable sentinel knows of is not
// noticed.
//
// # Choice of the master
//
// A [Watch] asks all known sentinels: the configured ones, and others that these name. A sentinel
// reports a master together with its epoch, a number that each failover increases. The Watch uses
// the master with the highest epoch. So one reachable sentinel that has switched is enough, even if
// others are cut off together with the old master and still name it.
//
// At a switch, all connections to the old master are closed, including those in use. Calls in
// flight fail, and later answers of the old master are never read.
//
// Sentinels publish a switch at once over a subscription. In addition, the Watch asks each sentinel
// once a second, or four times a second if it accepts no subscription.
//
// # Rest
//
// While a failover is in progress, the master rests: the Watch closes its connections and opens no
// new ones, even if the master answers. A sentinel promotes the replica first and names it as the
// master later. Without the rest, writes to the old master could be confirmed during that time, up
// to a second, and then lost.
//
// A rest begins when a sentinel reports that it has begun a failover. It ends when
//
//   - any sentinel names another master with a later epoch, which is the switch;
//   - the sentinel that began the failover has given it up, or has ended: its address refuses or
//     closes connections;
//   - restMost is over. Until then a silent sentinel may be slow or cut off from here, and continue
//     its failover.
//
// Nearly every failover that was begun ends in a switch. A master that sentinels only suspect to be
// down is still used, because they may find it alive before any of them begins a failover.
//
// Each sentinel reports only its own failovers, by the flag failover_in_progress in its answer to
// SENTINEL MASTER. The Watch asks for this flag when it starts and after each message of the
// sentinel. So it also notices a failover that began earlier. It does not notice a failover before
// the switch if that sentinel is unreachable, or refuses SENTINEL MASTER to its user.
//
// # Reinstalled sentinels
//
// The epochs of reinstalled sentinels start at 0. So a master with a lower epoch is accepted under
// two conditions: more than half of the sentinels that ever answered name it, and none names the
// present master.
package sentinel
