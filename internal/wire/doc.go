// Package wire sends commands and scripts to Redis: a single server, a master behind Sentinel, or a cluster. It opens
// the connections, interprets errors, and waits until writes are confirmed.
//
// # Scripts
//
// A [Script] is a Lua file, which [Client.Run] sends. Most scripts are guarded: they write nothing if the layout of the
// data in Redis, such as the number of shards, is not the one that this process expects. Package store sends these.
//
// # Writes are sent once
//
// A write whose reply was lost may have been executed. This package does not send such a write again, because only the
// caller can decide whether a second execution does harm. See [Once].
//
// # Confirmed writes
//
// A failover or crash may lose a write that Redis has just answered. So the calls of some scripts wait until replicas
// or the disk have their writes: see [Script.Confirmed], [Script.ConfirmedSettle] and [Confirm]. The error
// [ErrUnconfirmed] means that the write was made, but that the confirmation did not come in time.
//
// # Clusters
//
// A cluster node that does not answer must not delay calls to other nodes. So calls to several nodes or shards, by
// [Client.EachNode] and [Round], skip such a node. A Round then reports the shards whose results are missing.
//
// # Nodes of a cluster
//
// A node that hangs must not delay calls to other nodes.
//
// Calls to a node pass its gate, which measures how long waiting calls have had no reply. This time decides the state
// of the node:
//
//	no reply for  state  calls to the node
//	< 100 ms      well   are sent
//	≥ 100 ms      slow   are sent while fewer than 32 wait; a caller can avoid the node (see [Nodes.Slow])
//	≥ 1 s         away   fail at once with [ErrAway]: nothing was sent
//
// An error reply counts as a reply too. A node that refuses connections, or that is loading its data, is away at once.
//
// # Failovers of a cluster
//
// In a failover, another node takes over the slots (parts of the data) of a master. If the old master was only paused
// or cut off, it may still accept writes for a while, and these are lost. So every 250 ms, this process asks one of the
// nodes, each in turn, whether a failover has happened. A failover is noticed only if a reachable node has learned of
// it.
//
// Then the old master counts as replaced. Calls to it are refused, and calls in flight fail even if it answers. The
// client asks the other nodes for the new owners of the slots. The old master is used again when it reports that it has
// no slots, because it then redirects its clients, or when it gets slots in a later failover.
//
// # Recovery of a node
//
// While a node is away, [Nodes.Run] sends it one PING after another. After the first reply the node is well, and the
// channel [Nodes.Back] receives a value.
//
// Each process has its own view of the nodes. A wrong state costs failed calls, which their callers retry.
//
// # Sentinels
//
// A [Watch] finds the current Redis master by asking Redis Sentinels. When any sentinel reports a new master, it
// closes the connections to the old one, so that nothing more is written to a replaced master.
//
// # Choice of the master by sentinels
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
// # A switch of the master
//
// Sentinels publish a switch at once over a subscription. In addition, the Watch asks each sentinel once a second, or
// four times a second if it accepts no subscription. At a switch, all connections to the old master are closed,
// including those in use. Calls in flight fail, and later answers of the old master are never read. Normally this
// happens within half a second of the sentinel's switch.
//
// # During a failover by sentinels
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
//
// # Keys of the service
//
// A [KeyRing] derives the secret keys with which the service signs or encrypts sessions, links and page cursors.
// All instances derive the same keys, so each accepts the texts of the others. A text made for one purpose, such as
// links, is invalid for another.
//
// The keys are derived from one key of 32 bytes, created in Redis at the first start (notifier:key). If others can read
// that Redis, set NOTIFIER_KEY instead.
//
// The key in Redis is read for each use, because Redis may have been emptied or restored. After a change of the key,
// users must sign in again, and old links and cursors are invalid. In a cluster, the last known key is used while its
// node does not answer.
package wire
