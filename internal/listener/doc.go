// Package listener receives the expired events of Redis, which say that notices are due, and passes their keys to
// package dispatch as hints. A notice is a delayed callback, and most have a timer, a Redis key that expires at the due
// time.
//
// An event usually arrives at several instances. For each notice, one of them is preferred ([Assignment]): it claims
// the notice, and the others ignore the event. If two try, only one of them can claim it in Redis.
//
//	Redis node ── expired event ──▶ is another instance preferred? ── no ──▶ package dispatch (Hints)
//	           ── message of an instance ──▶ package reconcile (Wakes)
//	           ◀─ beat every second ── no beat received for 3 s: close and subscribe again
//
// # Guarantees
//
// Events are lost when a connection breaks, and dropped when the queue of hints is full. Package reconcile usually
// finds the notices of lost events one grace (50 ms) later. The listener replaces a dead subscription within seconds.
// After each new subscription it requests a sweep, a search for due notices ([State]).
//
// The messages of one connection are processed in their order. Messages of different nodes have no order.
//
// # A subscription
//
// A connection to each master receives the expired events and the wake channel, on which instances send messages to
// each other. Every second the listener publishes a message there, the beat. If it has received no beat for three
// seconds, it closes the subscription and opens another.
//
// A node sends expired events only if its setting notify-keyspace-events, the notify flags, says so. This setting and
// the role of a node may change at any time. So the listener reads both regularly.
//
// On routes with adoption (package intake), producers set timers themselves, and the listener also needs the keyspace
// events of their keys. It subscribes to them over a separate connection, because Redis may refuse this subscription,
// and a refusal must not end the other one.
//
// # Whether events flow
//
// Redis sends an event at once if a client reads the expired timer. So package reconcile touches each timer: it reads
// the timer when it is due. The listener expects the events of some touched timers within the grace
// ([Listener.Touched]). If one is missing, or if the notify flags exclude events, the listener sends a probe, which is
// a key that expires at once.
//
// If the event of the probe is missing too, or if the subscription ends or is refused, the events of the node count as
// stopped. They count as flowing again when ten probes in a row have arrived.
//
// A stop is noticed within a few seconds of the first lost event. Until then notices are one grace late. Afterwards
// package reconcile claims each notice at its due time.
//
// # Groups
//
// An instance can touch several timers together. Before that, it announces on the wake channel which instance is to
// claim these notices. That instance then normally claims and settles them in one batch. An instance that missed the
// announcement decides by the key of each notice. In the worst case, a sweep then claims a notice one grace later.
package listener
