// Package node isolates calls to the nodes of a Redis cluster, so that a node that hangs does not delay calls to
// others. Each node has a gate, which counts the calls that wait for the node. It measures how long the node has not
// answered while calls were waiting, and that time decides the state of the node:
//
//	no answer for  state  calls to the node
//	< 100 ms       well   are sent
//	≥ 100 ms       slow   are sent while fewer than budget wait; optional calls check Slow and skip the node
//	≥ 1 s          away   fail at once with ErrAway: nothing was sent
//
// A node that refuses connections, or that is loading its data, is away at once. An error reply counts as an answer.
//
// # Failovers
//
// A master that was paused or cut off confirms writes for a while after it was replaced, and these writes are lost.
// So at intervals of askEvery, this process asks one node, in turn, for the epoch of the cluster. If the epoch has
// changed, it also asks for the node's view of the cluster.
//
// A node is replaced if another node has its slots with a higher epoch. Calls to a replaced node are refused, and
// calls in flight fail whatever the node answers. The client then asks the other nodes for the owners of the slots.
// The node is well again if it reports that it has no slots, or if others report that it has slots with a still
// higher epoch.
//
// If m nodes have not learned of a failover yet, this process notices it within (m+1) × askEvery. A failover that no
// reachable node has learned of is not noticed.
//
// # Recovery
//
// While a node is away, Run sends it PINGs over a separate connection. After the first answer the node is well, and
// the channel Back receives a value.
//
// Each process has its own view of the nodes. A wrong state costs one failed call, which the caller retries.
package node
