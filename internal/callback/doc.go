// Package callback delivers a notice by HTTP. One attempt is one signed request, and the answer decides the outcome.
//
//	deferral checks            → token → request → dial guard      → exchange → result
//	(slots, rate, breaker)                         (notice targets)
//
// # Guarantees
//
//   - Lost: the package stores nothing. Each attempt returns a result (delivered, retry, dead or deferred, with a reason from the
//     closed set of package notice), and the caller settles it. resultOf computes the result and is a pure function.
//   - Duplicated: within an attempt, a request is sent again only if the receiver cannot have read all of it: on a kept connection
//     that took no byte of it, or not all of it. A request that was written in full and not answered is a failed attempt, because the
//     receiver may be processing it. For the same reason net/http's own retries are disabled. One exception: a 401 for an access token
//     leads to one more call with a new token.
//   - Ordered: no. Calls of one route run concurrently.
//   - Deferred: a notice that finds no slot, no rate or an open breaker is returned at once. It uses no attempt and holds no slot.
//
// # Isolation of receivers
//
// Limits are kept per route and destination (host:port), so that a host that hangs or is slow does not delay the others:
//
//   - A host takes at most the route's host concurrency.
//   - After ten slow failures in a row the host's breaker opens: one call is tried after 5, 10, 20, 30, 30, … seconds.
//   - Hosts that did not answer last time, or were never called, share half of the route's concurrency.
//   - Three answers of 429 or 503 in a row halve a host's slots. A single one among good answers takes part of a slot. Every round of
//     good answers gives one slot back.
//
// The delay of a deferred notice grows with the number of deferred notices and with the duration of calls to that host, so that a long
// queue for one host is not claimed over and over. Producers choose the hosts, so the tables of hosts are bounded (hostTable,
// transportPool).
//
// # Several instances
//
// The slots of a host and the rate of a route are divided among the live instances (View). The parts add up to the limit while the set
// of instances is stable, and may exceed it for one heartbeat after a change. A running call is not cut short when the part shrinks. An
// instance whose part is zero hands the notice to an instance with a part (Fleet.HandOver). Calls under a rate start one by one, so any
// number of instances together start at most one call each above the rate in a second. A call waits up to 250 ms in its slot for its
// turn, which evens out the load of the instances.
//
// Instances tell each other the state of their breakers (learn.go). A breaker that opens at one instance opens at all others, except
// where the host has answered since the failures began. One instance makes the next try, a different one for each try, and publishes an
// answer. Messages may be lost: each instance then finds out by itself.
//
// An instance that alone cannot reach a host keeps its own breaker open, and hands that host's notices to the instances that reach it,
// due again in 50 ms. From time to time it tries the host with one notice. If it cannot connect, the notice is handed over as well and
// uses no attempt.
//
// # Untrusted urls
//
// The url of a notice is untrusted. Package route has the rules, and checks the url when the notice is scheduled. This package checks
// the url again, and then the address that the socket is about to connect to, after DNS: a name that resolves differently the second
// time gains nothing. Routes share connections only if they have the same TLS files, proxy and permissions. A fixed target is
// configured by the operator and not checked. Behind an outbound proxy, which resolves names, only addresses spelt out in the url can
// be checked.
//
// # A suspended process
//
// After SIGSTOP, the migration of a VM or a frozen cgroup, the process finds its calls past their deadline, although the receivers did
// nothing wrong. An answer that arrived during the stop is read, for up to 50 ms, and counts. A call that ends more than a second after
// its deadline without an answer is interrupted, and the breaker ignores it. Over HTTP/2 such an answer is not read, because the
// transport has closed the stream by then.
//
// # Transports
//
// The direct transport makes calls without TLS, and calls to receivers that were offered HTTP/2 and chose HTTP/1.1. It works in the
// goroutine of the caller, on pooled connections, with one deadline for the whole call. A call without TLS holds no buffer while it
// waits for the answer.
//
// net/http's transport makes calls over HTTP/2, calls through proxies, and the first call to each receiver with TLS. It needs two more
// goroutines per connection. Both transports send the same bytes, and parse answers with net/http's reader, so an answer means the same
// with both. (Another library's parser was measured and was not cheaper.)
//
// A kept connection is checked before it is used. It is closed after 4 s without a call, or one second before the time in the
// receiver's Keep-Alive header. So few attempts are lost on connections that the receiver has just closed.
//
// # Signatures
//
// Package sign computes them. A receiver that can verify with a secret key can also forge with it. Where each notice has its own url, a
// route has many receivers. So each receiver gets a separate key, derived from the route's secrets and the host, or the audience that
// the notice names (package route). For the same reason a route's headers are sent only to the hosts that the configuration lists.
//
// A GET has no body. Its content is sent as the query, and the signature covers the whole query string in place of the body.
package callback
