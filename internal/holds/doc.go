// Package holds pauses and limits single receivers. A receiver is a host that callbacks are sent to, or an audience
// (the producer's name for a customer).
//
//   - A pause holds the notices of a receiver: they stay pending, and are delivered after the pause.
//   - A resume ends a pause, and spreads the held notices over some time.
//   - A limit lowers the rate or the number of concurrent calls of a host on each route, for all instances together.
//
// Pauses and limits are stored in the hash notifier:receivers in Redis, and every instance follows its changes. While
// the hash cannot be read, an instance uses the pauses and limits that it has read last. Before it has read those for a
// shard (a part of the notices), it claims no notices of HTTP routes there.
//
// # Holding
//
// A notice is claimed before its receiver is known. If the receiver is paused, package dispatch starts no attempt. It
// postpones the notice until after the pause, or by an hour if the pause has no end. It also lists the notice as held
// by this pause. Each partition (the notices of one route in one shard) has one such list.
//
// If the url or the headers of a held notice change, the notice is released: it is due again, and its next claim decides
// whether its receiver is paused. Any other change of the notice usually removes it from the list. If it stays listed by
// mistake, that has no effect: the list also has the time until which the notice was postponed, and a notice with another
// time is not released.
//
// # Resuming
//
// In every instance a [Walker] releases the held notices of pauses that have ended. It works in steps, each of which is
// one script: the step takes some notices off a list, and spreads the times of their next attempts evenly over the
// duration of the resume. So the receiver is not flooded. The due times of the notices stay the same. A step needs no
// state but the list, so any instance may run, stop or repeat it.
//
// The pause is deleted some seconds after its end, when its lists are empty. An instance that learns of the resume
// later may still hold notices. Therefore walkers regularly release notices whose pause was deleted.
package holds
