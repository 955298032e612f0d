// Package engine is everything from schedule to settle on one Redis: it puts the
// parts together, starts them in order and stops them in order. Package app makes
// a process of it, with the HTTP API.
//
// # Life
//
//	New ──▶ Begin ──▶ Run ──▶ ctx ends ──▶ Drain ──▶ Close
//
// New makes no connection and never fails. Begin waits for Redis, learns how many
// shards it has and of which layout its data are, and only then makes the parts:
// before that each call is refused with wire.ErrNotBegun, once it has waited half
// a second for Begin. Run begins by itself, gives this instance's signs of life, and
// starts the parts: the listener, the janitor, the adopter, what tells of outages
// and of timers without a route that adopts, and one sweeper for each partition.
//
// When Run's context ends, claims end first, running handlers are waited for and
// settled, and the parts end last, so that wakes and pauses are heard until then.
// Calls of the API go on meanwhile: who takes them ends that, and then calls
// Close, which waits for what is being scheduled.
//
// # Who owns what
//
// Run owns every goroutine of the parts and returns when they have ended; Close
// those that send what is scheduled. A part that another part speaks to is named
// here alone: they know one another as functions (On…) and as small interfaces.
package engine
