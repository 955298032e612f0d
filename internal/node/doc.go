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
// While a node is away, Run asks it again and again, by a PING of its own; the
// first answer makes it well, and Back tells of it.
//
// The table is this process's own: nothing of it is shared with other instances,
// and a gate that is wrong costs one failed call, which its caller repeats.
package node
