// Package schedule accepts notices (delayed callbacks). It finds the route of each, its configuration by key prefix,
// validates the notice, and stores it in Redis. Concurrent calls share round trips to a node, one server of Redis:
//
//	Schedule ─┐
//	Schedule ─┼─▶ one batch per node ─▶ script calls ─▶ one round trip
//	Schedule ─┘
//
// Schedule sends a notice at once if fewer than two round trips to its node are in flight. Later notices for the node
// are then sent together. [Scheduler.Many] sends its notices separately. A slow node delays only calls with notices for
// it.
//
// # Guarantees
//
// If Created is true in a reply, the notice was stored. After an error that wraps wire.ErrUnavailable, it may be stored
// or not. The caller may repeat the call: that normally creates no second notice, except with the option
// [store.Replace]. Requests for one key keep their order within one call of Many.
//
// If a caller's context ends before its notice is sent, the notice is dropped. If it ends later, the notice may be
// stored. The end of one caller's context does not end a round trip that other callers share.
package schedule
