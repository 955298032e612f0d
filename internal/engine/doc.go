// Package engine delivers notices with one Redis, from schedule to settle. It creates the parts,
// and starts and stops them in order. Package app makes a process of it, with the HTTP API.
//
// # Lifecycle
//
//	New ──▶ Begin ──▶ Run ──▶ ctx ends ──▶ Drain ──▶ Close
//
// New opens no connection and never fails. Begin waits for Redis, reads the layout of its data and
// creates the parts. A call before the end of Begin waits for half a second, and then returns
// wire.ErrNotBegun. Run calls Begin, publishes this instance's heartbeats, and starts the parts:
// listener, janitor, adopter, one sweeper per partition, and further loops.
//
// When Run's context ends, it first stops claiming. Then it waits until running handlers have ended
// and are settled. The parts end last, because messages of other instances, such as a pause, must
// be processed until then. API calls continue during the drain. The server ends them and then calls
// Close, which waits for running schedule calls.
//
// # Ownership
//
// Run owns all goroutines of the parts and returns when they have ended. Close ends the goroutines
// that send schedule calls. Parts that depend on each other are connected only in this package, as
// small interfaces.
package engine
