// Package redirect changes the URLs of pending notices whose receiver has moved to another address. A redirect is one
// such change: a rule says which URLs change, and how.
//
// The rule is stored in each shard before the call that makes a redirect is answered. From then on each claim returns it,
// and the attempt uses the new address. Attempts of claims made before may use the old one.
//
// A [Driver] reads the pending notices in passes, and builds new records for those that match. A script writes a new
// record, unless the notice is claimed or has changed since it was read. Such a notice is visited again in the next
// pass. The redirect is normally done when a pass has left no such notice.
//
// # Guarantees
//
//   - A repeated step changes nothing. A changed notice carries the redirect's id, and later steps skip it. So it does
//     no harm if the new address matches the rule again.
//   - A redirect ends, even while producers still use the old address: only notices that were created before the
//     redirect are changed.
//   - Webhook-id, attempts, due time and place in a sequence (notices that are delivered in order) stay.
//   - Some credentials are dropped if the new address is another receiver, unless the rule keeps them. These are the
//     user and password in the URL, and the headers Authorization, Cookie and Proxy-*.
//   - A notice that is held because its old receiver is paused is released, so that the new receiver gets it: see package
//     holds. Several are spread over up to a minute.
//   - If the route of a notice does not allow the new address, the notice stays unchanged and is counted as refused.
//
// # Several instances
//
// Every instance runs a Driver. One of them acquires a lease of 5 s, which it renews, and works on the oldest running
// redirect. If it stops, another Driver continues at the partition (route and shard) in which it stopped. The
// redirects are worked on one after the other. A redirect never changes a notice that a later one has changed, so two of
// them do not change the same notices alternately.
//
// A partition that cannot be visited, because a node is unreachable or a key has a foreign type, is left to the next pass.
// Its redirect is not done until then; the other partitions and redirects go on. The state is read after each failure, so
// a failing redirect can be stopped.
//
// While notices move to other shards, passes are repeated until the move is complete.
package redirect
