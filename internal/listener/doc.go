// Package listener turns Redis's expired events into hints.
//
// # What it promises
//
// Nothing about events: they are pub/sub, lost on a disconnect and dropped
// when a queue is full. It promises that a subscription that is dead is
// replaced within some seconds, and that whoever relies on it is told each time
// one begins, so that everything can be swept at once.
//
// # Life of a subscription
//
// One connection to each master follows the expired events and the wake
// channel. go-redis never waits for the answer to its PINGs, so a silent
// connection would look alive for many minutes: instead a beat is published on
// the wake channel every second, and a subscription that has not heard it for
// three seconds is closed and made anew. When a subscription begins, the node's
// role and its notify flags are read. Afterwards they are read in the round trip of
// the beat: the role every 5 s, the flags with each beat by the preferred instance of
// the node and every 10 s by the others. Flags are per node, neither persisted nor
// replicated.
//
// Keyspace events of routes that adopt plain timers have a connection of their
// own: Redis compares their patterns with the user's rights to the letter, and one
// that is not granted must not cost the other routes their expired events. It
// lives as long as the first one, and PINGs in the place of beats.
//
// An instance that touches several timers at once says right before, on the wake
// channel of the same node, which instance their events are for: that one claims and
// settles them together. The message and the events come over one connection, in
// order, so all who hear them agree; who does not goes by each notice's key. It is a
// hint about hints: where it is wrong, a notice is claimed a grace later.
//
// # Whether events flow
//
// The listener observes, for each node, whether the event of a timer that this instance
// touches arrives within the grace. If one does not, a key of the service's own is set to
// expire ([Listener.Touched] begins the observation). If its event does not arrive either,
// events have stopped, and so they have when the subscription ends. They flow again when ten
// such keys in a row have been announced. The notify flags that CONFIG returns can cause an
// observation. They never decide, because a managed Redis may refuse CONFIG and send events.
//
// A stop is noticed within three seconds. Until then notices are late by the grace;
// afterwards the reconciler claims each at its due time.
//
// The reader of a connection never blocks: it hands each event over and goes
// on. Who takes it over drops it when there is no room.
package listener
