// Package sentinel finds the master that Redis Sentinels name, and closes the connections to the old master as soon as any sentinel
// reports a new one.
//
// # Guarantees
//
// From half a second after a sentinel has switched, no process that reaches this sentinel accepts an answer of the old master. A switch
// that no reachable sentinel knows of is not noticed.
//
// A [Watch] asks all known sentinels: the configured ones and the further ones that these name. Sentinels report a master together with the
// epoch, a number that each failover increases. The Watch uses the master with the highest epoch. So one reachable sentinel that has
// switched is enough, even if other sentinels are cut off together with the old master and still name it.
//
// A switch closes all connections to the old master, including those in use. Calls in flight on them fail, and later answers of the old
// master are never read. Sentinels publish a switch at once over a subscription. The Watch also asks each once a second, or four times a
// second if it accepts no subscription.
//
// # Rest
//
// As soon as a sentinel reports that it has begun a failover, the master rests: the Watch closes its connections and opens no new ones,
// whether the master answers or not. Without the rest, writes to a master that is being replaced could be confirmed and then lost, for up
// to a second: a sentinel promotes the replica first, and names it as the master later. The rest ends when
//
//   - any sentinel names another master with a later epoch, which is the switch;
//   - the sentinel that began the failover has given it up, or has ended: its address refuses connections or closes them;
//   - restMost is over. Until then a silent sentinel may be slow or cut off from here, and continue its failover.
//
// A failover that was begun nearly always ends in a switch. A master that sentinels only consider down is still used, because they may
// find it alive before any of them begins a failover.
//
// Each sentinel reports only its own failovers, by the flag failover_in_progress in its answer to SENTINEL MASTER. A message of a sentinel
// only makes the Watch ask. So a Watch that starts during a failover rests as soon as that sentinel has answered. If the sentinel is
// unreachable, or its user may not use SENTINEL MASTER, the failover is not noticed before the switch.
//
// # Reinstalled sentinels
//
// The epochs of reinstalled sentinels start at 0. A master without a higher epoch is accepted only if more than half of the
// sentinels that ever answered name it and none names the present one.
package sentinel
