// Package listener receives the expired events of Redis, which say that notices are due, and passes
// their keys to package dispatch as hints.
//
//	Redis node ── expired event ──▶ is another instance preferred? ── no ──▶ Hints.Expired
//	           ── wake channel ───▶ Wakes (package reconcile)
//	           ◀─ beat every second ── no beat received for 3 s: close and subscribe again
//
// # Guarantees
//
// Lost: events may be lost at any time. They are pub/sub messages, so a disconnect loses them, and
// they are dropped while the queue of hints is full. The reconciler finds the notices of lost
// events one grace (50 ms) later. The listener guarantees only that it replaces a dead subscription
// within seconds. After each new subscription all partitions are swept ([State]).
//
// Duplicated: an event usually arrives at several instances. The [Assignment] decides which
// instance processes it. If two do, the claim in Redis decides.
//
// Ordered: the messages of one connection are processed in their order. Messages of different nodes
// have no order.
//
// # A subscription
//
// A connection to each master receives the expired events and the wake channel, on which instances
// send messages to each other. A silent connection must be replaced, but go-redis does not notice
// one: it never waits for the answers to its PINGs. So every second the listener publishes a
// message on the wake channel, the beat. If it has received no beat for three seconds, it closes
// the subscription and opens another.
//
// A node sends expired events only if its notify flags (notify-keyspace-events) say so. The flags
// are not replicated and not saved, and the role of a node may change. So the listener reads both
// when it subscribes and again later, in the round trip of a beat: the role every 5 s, and the
// flags every 10 s. For each node one instance reads the flags every second.
//
// On routes with adoption, producers set timers themselves, and the listener also needs the
// keyspace events of their keys. It subscribes to them over a separate connection, because Redis
// may refuse this subscription, and that must not end the one to expired events. Redis accepts it
// only if the rights of the user name the same pattern or all channels. The separate connection is
// closed with the first one and is checked by PINGs.
//
// # Groups
//
// An instance can touch several timers together, so that Redis expires all of them at once. To
// touch a timer is to read it when it is due. Before that, the instance publishes an announcement
// on the wake channel of the same node. It names the instance that is to claim these notices, which
// then claims and settles them in one batch.
//
// The announcement and the events arrive over one connection in this order, so all instances that
// receive them agree. An instance that missed the announcement decides by the key of each notice.
// If the instances disagree, a notice is claimed one grace later.
//
// # Whether events flow
//
// The listener observes for each node whether expired events arrive. The sample is a timer that
// this instance has touched ([Listener.Touched]): its event must arrive within the grace. If it
// does not, the listener sends a probe, which is a key that expires at once.
//
// If the event of the probe does not arrive either, or if the subscription ends, the events of the
// node count as stopped. They count as flowing again when ten probes in a row have arrived. Notify
// flags that exclude events cause a probe too, but decide nothing: a managed Redis may refuse
// CONFIG and still send events.
//
// A stop is noticed within three seconds. Until then notices are one grace late. Afterwards the
// reconciler claims each notice at its due time.
//
// The reader of a connection never blocks: if the queue of hints is full, it drops the event.
package listener
