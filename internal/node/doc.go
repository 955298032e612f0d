// Package node keeps what one node of a cluster does from being felt by calls to
// the others.
//
// A cluster's client has a pool of connections for each node, so a node that
// hangs takes no connection from another. What it takes is whoever waits for it:
// goroutines, slots for attempts, the calls that share a batch with its own. So
// each node has a gate, which counts the calls that wait for it and knows how
// long it has been silent:
//
//	silent for     it is     and a call to it
//	               well      goes out
//	MaxSilence     slow      goes out, while fewer than budget wait; who need not wait for it, asks Slow and does not
//	limit          away      fails at once, with ErrAway: nothing was sent
//
// A node is silent from its last answer, or, if none was asked for since, from
// the first call that waits for one. A node to which no connection can be made,
// or that is loading its data, is away at once. Errors are answers: what a node
// refuses, as a slot that it does not have, says nothing about the node.
//
// # Failovers
//
// A master that is cut off from the other nodes, or that was stopped, goes on for a while
// after another has taken its place, and what it confirms then is lost. Who reaches both
// learns of it from the others: each askEvery one node is asked, in its turn, for the
// cluster's epoch, and, where that has changed, for what it knows of the others. When a
// node is seen without slots, and another has them with a higher epoch, it is replaced:
// calls to it are refused, what is under way there fails whatever it answers, and the
// client asks the others who serves what. It is well again when it says itself that
// it has no slots, or when others see it with slots and a higher epoch still.
//
// With m nodes that do not know of the switch yet it is found within (m+1) askEvery of the
// moment at which any other does. Nothing is known of a switch that no node within reach
// knows of.
//
// # Away
//
// While a node is away, Run asks it again and again, by a PING of its own; the
// first answer makes it well, and Back tells of it.
//
// The table is this process's own: nothing of it is shared with other instances,
// and a gate that is wrong costs one failed call, which its caller repeats.
package node
