// Package intake accepts notices (delayed callbacks): from calls, with a [Scheduler], and from plain Redis timers, with an
// [Adopter].
//
// # Calls
//
// A Scheduler finds the route of each notice, its configuration by key prefix, validates the notice, and stores it in Redis.
// Concurrent calls share round trips to a node, one server of Redis:
//
//	Schedule ─┐
//	Schedule ─┼─▶ one batch per node ─▶ script calls ─▶ one round trip
//	Schedule ─┘
//
// Schedule sends a notice at once if fewer than two round trips to its node are in flight. Later notices for the node
// are then sent together. [Scheduler.Many] sends its notices separately. A slow node delays only calls with notices for
// it.
//
// If Created is true in a reply, the notice was stored. After an error that wraps wire.ErrUnavailable, it may be stored
// or not. The caller may repeat the call. That creates no second notice while Redis has the first one or its tombstone,
// unless the option is [store.Replace]. Requests for one key keep their order within one call of Many.
//
// If a caller's context ends before its notice is sent, the notice is dropped. If it ends later, the notice may be
// stored. The end of one caller's context does not end a round trip that other callers share.
//
// # Plain timers
//
// An Adopter turns plain Redis timers into notices: it adopts them. So a client needs only a Redis library. It sets
// a string key with an expiry, and the payload becomes the body of a notice that is due when the key expires:
//
//	SET app:module:type:id <payload> EX 15
//
// Adoption must be enabled for the route of the key. The client can then change the notice with Redis commands:
//
//	SET with an expiry, again                  a new notice replaces the old one; if the payload is the same, the old
//	                                           one is usually only rescheduled
//	EXPIRE                                     the notice is rescheduled; a time in the past cancels it
//	DEL, RENAME, PERSIST, SET without expiry   the notice is cancelled
//
// # How adoption works
//
//	keyspace event ─┐
//	                ├─▶ key ─▶ read timer and notice ─▶ decide ─▶ write, if both are unchanged
//	scan ───────────┘          (one script)            (rules)    (one script)
//
// A keyspace event is a message from Redis that a key has changed. While events arrive, adoption takes about a
// millisecond. A scan of all keys under the prefixes of the routes finds timers whose events were lost. It runs at the
// start, after each new subscription to events, and usually every minute.
//
// # Guarantees and limits of adoption
//
// An adopted notice has all guarantees of other notices, except in these cases. If one of them matters, use the API or
// deploy/schedule.lua:
//
//	a timer expires before its adoption        its notice has no body; if its event is lost too, there is no notice
//	Redis evicts a timer before its adoption   there is no notice
//	the event of a DEL is lost                 the notice may be delivered all the same
//	in a cluster, a DEL in the last second     it is ignored: the clocks of the nodes may differ
//	the payload is a small number, such as 0   it may be ignored: the service's own timers have such values
//	the payload exceeds NOTIFIER_MAX_BODY      its notice has no body
package intake
