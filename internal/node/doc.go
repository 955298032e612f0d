// Package node isolates calls to the nodes of a cluster, so that a node that hangs does not delay calls to the others.
//
// A cluster's client has a separate pool of connections for each node. But the callers that wait for a hanging node also block goroutines,
// slots for attempts, and other calls of the same batch. So each node has a gate. It counts the calls that wait for the node, and measures
// the time since the node's last answer (or since the first waiting call, if no call was waiting before it). The state depends on that
// time:
//
//	no answer for  state  calls to the node
//	< 100 ms       well   are sent
//	≥ 100 ms       slow   are sent while fewer than budget wait; optional calls check Slow and skip the node
//	≥ 1 s          away   fail at once with ErrAway: nothing was sent
//
// A node that refuses connections, or that is loading its data, is away at once. Error replies are answers, because a refusal does not
// mean that the node is unhealthy.
//
// # Failovers
//
// A master that was stopped, or is cut off from the other nodes, still confirms writes for a while after its replacement. These writes are
// lost. A process that can reach both sides learns of the failover from the other nodes. Every askEvery it asks one node, in turn, for the
// cluster's epoch. If the epoch has changed, it also asks for that node's view of the cluster.
//
// A node is replaced if another node has its slots with a higher epoch. Calls to a replaced node are refused. Calls in flight there fail
// whatever the node answers, and the client asks the other nodes for the owners of slots. The node counts as well again in two cases: it
// reports itself that it has no slots, or other nodes report that it has slots with a still higher epoch.
//
// A failover is noticed at the latest (m+1) × askEvery after one node knows of it, if m other nodes do not know of it yet. A failover that
// no reachable node knows of is not noticed.
//
// # Recovery
//
// While a node is away, Run probes it with a separate PING. After the first answer the node is well, and Back receives a value.
//
// The state belongs to this process and is not shared with other instances. A wrong state costs one failed call, which the caller
// retries.
package node
