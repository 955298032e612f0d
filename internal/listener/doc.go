// Package listener receives Redis's expired events. It passes the keys of due notices to package
// dispatch as hints.
//
//	Redis node ── expired event ──▶ is another instance preferred? ── no ──▶ Hints.Expired
//	           ── wake channel ───▶ Wakes (package reconcile)
//	           ◀─ beat every second ── no beat received for 3 s: close and subscribe again
//
// # Guarantees
//
// Lost: events may be lost at any time. They are pub/sub messages: a disconnect loses them, and
// a full queue of hints drops them. The reconciler finds their notices one grace (50 ms) later. The
// listener guarantees only that it replaces a dead subscription within seconds. It reports each new
// subscription to [State], so that all partitions are swept at once.
//
// Duplicated: an event usually arrives at several instances. The [Assignment] decides which of them
// processes it; the claim decides if two do. Ordered: the messages of one connection are processed
// in their order. Between nodes there is no order.
//
// # A subscription
//
// One connection to each master receives the expired events and the wake channel, on which
// instances send messages to each other. go-redis never waits for the answer to its PINGs, so
// a silent connection would look alive for minutes. Instead the listener publishes a message,
// the beat, on the wake channel every second. If it has not received a beat for three seconds, it
// closes the subscription and opens another.
//
// When a subscription begins, the listener reads the node's role and notify flags. Flags belong to
// a node and are neither persisted nor replicated, so both are read again, in the round trip of
// a beat. The role is read every 5 s. For each node, one instance reads the flags every second; the
// others read them every 10 s.
//
// The keyspace events of routes with adoption use a separate connection. Unless the user may use all
// channels, Redis accepts such a subscription only if the user's rights name exactly the same pattern. A
// refusal must not end the subscription to expired events. The separate connection is closed with the
// first one, and is checked by PINGs.
//
// # Groups
//
// An instance can touch several timers together, so that Redis expires them at once. Before that it
// publishes an announcement on the wake channel of the same node: the instance that is to claim
// these notices. That instance then claims and settles them together. The announcement and the
// events arrive over one connection in this order, so all instances that receive them agree. An
// instance that missed the announcement decides by each notice's key. If the instances disagree,
// a notice is claimed one grace later.
//
// # Whether events flow
//
// For each node the listener observes whether the event of a timer that this instance touches
// arrives within the grace ([Listener.Touched]). If an event does not, the listener sends a probe: it
// writes a key that expires at once. If the probe's event does not arrive either, or if the
// subscription ends, the events of the node count as stopped. They flow again when ten probes in
// a row have arrived. Unsuitable notify flags cause a probe too. The flags alone prove nothing,
// because a managed Redis may refuse CONFIG and still send events.
//
// A stop is noticed within three seconds. Until then notices are late by the grace. Afterwards the
// reconciler claims each notice at its due time.
//
// The reader of a connection never blocks: if the queue of hints is full, the event is dropped.
package listener
