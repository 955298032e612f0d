// Package node isolates calls to the nodes of a Redis cluster: a node that hangs must not delay calls to other nodes.
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
// # Failovers
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
// # Recovery
//
// While a node is away, [Nodes.Run] sends it one PING after another. After the first reply the node is well, and the
// channel [Nodes.Back] receives a value.
//
// Each process has its own view of the nodes. A wrong state costs failed calls, which their callers retry.
package node
