// Package node isolates calls to the nodes of a Redis cluster, so that a node that hangs does not
// delay calls to other nodes.
//
// Separate connection pools per node are not enough: callers that wait for a hanging node also
// occupy goroutines, slots for attempts, and other calls of the same batch. So each node has a
// gate. The gate counts the calls that wait for the node, and measures how long the node has not
// answered while calls were waiting. That time decides the state of the node:
//
//	no answer for  state  calls to the node
//	< 100 ms       well   are sent
//	≥ 100 ms       slow   are sent while fewer than budget wait; optional calls check Slow and skip the node
//	≥ 1 s          away   fail at once with ErrAway: nothing was sent
//
// A node that refuses connections, or that is loading its data, is away at once. An error reply is
// an answer too, because it does not mean that the node is unhealthy.
//
// # Failovers
//
// A master that was paused, or is cut off from the other nodes, confirms writes for a while after
// it was replaced. These writes are lost. A process that can reach both sides learns of the
// failover from other nodes. At intervals of askEvery it asks one node, in turn, for the epoch of
// the cluster. If the epoch has changed, it also asks for the node's view of the cluster.
//
// A node is replaced if another node has its slots with a higher epoch. Calls to a replaced node
// are refused, and calls in flight fail whatever the node answers. The client then asks the other
// nodes for the owners of the slots. The node counts as well again in two cases: it reports that it
// has no slots, or other nodes report that it has slots with a still higher epoch.
//
// If m nodes do not know of a failover yet, this process notices it after (m+1) × askEvery at the
// latest. A failover that no reachable node knows of is not noticed.
//
// # Recovery
//
// While a node is away, Run sends it PINGs over a separate connection. After the first answer the
// node is well, and the channel Back receives a value.
//
// Each process has its own view of the nodes. A wrong state costs one failed call, which the caller
// retries.
package node
