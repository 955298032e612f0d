// Package listener receives the expired events of Redis, which say that notices are due, and passes their keys to
// package dispatch as hints.
//
//	Redis node ── expired event ──▶ is another instance preferred? ── no ──▶ Hints.Expired
//	           ── wake channel ───▶ Wakes (package reconcile)
//	           ◀─ beat every second ── no beat received for 3 s: close and subscribe again
//
// # Guarantees
//
// Events are lost when a connection breaks, and dropped when the queue of hints is full. The reconciler finds the
// notices of lost events one grace (50 ms) later. The listener replaces a dead subscription within seconds. After
// each new subscription all partitions are swept ([State]).
//
// An event usually arrives at several instances. The [Assignment] decides which instance processes it. If two do, the
// claim in Redis decides.
//
// The messages of one connection are processed in their order. Messages of different nodes have no order.
//
// # A subscription
//
// A connection to each master receives the expired events and the wake channel, on which instances send messages to
// each other. Every second the listener publishes a message on the wake channel, the beat. If it has received no beat
// for three seconds, it closes the subscription and opens another. go-redis does not notice a dead subscription,
// because it never waits for the answers to its PINGs.
//
// A node sends expired events only if its notify flags (notify-keyspace-events) say so. The flags are not replicated
// and not saved, and the role of a node may change. So the listener reads the role every 5 s and the flags every 10
// s. For each node one instance reads the flags every second.
//
// On routes with adoption, producers set timers themselves, and the listener also needs the keyspace events of their
// keys. It subscribes to them over a separate connection, because Redis may refuse this subscription, and that must
// not end the other one. Redis accepts it only if the rights of the user name the same pattern or all channels.
//
// # Groups
//
// An instance can touch several timers together, so that Redis expires all of them at once. To touch a timer is to
// read it when it is due. Before that, the instance announces on the wake channel which instance is to claim these
// notices. That instance then claims and settles them in one batch.
//
// The announcement and the events arrive over one connection in this order. An instance that missed the announcement
// decides by the key of each notice. If the instances disagree, a notice is claimed one grace later.
//
// # Whether events flow
//
// The listener observes for each node whether expired events arrive. Its samples are timers that this instance has
// touched ([Listener.Touched]), whose events must arrive within the grace. If one does not, or if the notify flags
// exclude events, the listener sends a probe, which is a key that expires at once.
//
// If the event of the probe does not arrive either, or if the subscription ends, the events of the node count as
// stopped. They count as flowing again when ten probes in a row have arrived.
//
// A stop is noticed within three seconds. Until then notices are one grace late. Afterwards the reconciler claims
// each notice at its due time.
//
// The reader of a connection never blocks: if the queue of hints is full, it drops the event.
package listener
