// Package callback delivers notices by HTTP. One attempt sends one signed request to the receiver,
// and the answer decides the outcome: delivered, retry, dead or deferred.
//
//	deferral checks            → token → request → dial guard      → exchange → result
//	(slots, rate, breaker)                         (notice targets)
//
// A notice is also deferred if a deferral check fails. Then nothing is sent, and the notice is due
// again soon. The dial guard checks the address of a url that a producer has chosen.
//
// # Guarantees
//
//   - Lost: the package stores nothing, so it cannot lose a notice. Each attempt returns a result,
//     and the caller writes that result to Redis. The pure function resultOf computes it.
//   - Duplicated: a request that the receiver may have read in full is not sent again within an
//     attempt, because the receiver may be processing it. The attempt has failed. Only a request
//     that was not written in full on a kept connection is sent again. For the same reason the
//     retries of net/http are disabled. There is one exception: after a 401, the call is repeated
//     once with a new access token.
//   - Ordered: no. Calls of one route run concurrently.
//   - Deferred: a notice is returned at once if it finds no slot, no rate or an open breaker. It
//     uses up no attempt and holds no slot.
//
// # Isolation of receivers
//
// A host that is slow or hangs does not delay calls to other hosts. So these limits apply to each
// destination (host:port) of a route:
//
//   - A host has at most as many running calls, its slots, as the route's host concurrency.
//   - After ten slow failures in a row, the host's circuit breaker opens. A failure is slow if it
//     timed out or took a second or more. Then one call is tried after 5, 10, 20, 30, 30, …
//     seconds.
//   - Hosts that were never called, or failed slowly last time, share half of the route's
//     concurrency.
//   - Three answers of 429 or 503 in a row halve a host's slots. A single one reduces a limited
//     host by a part of a slot. Every round of good answers gives one slot back.
//
// A deferred notice waits longer if more notices are deferred for its host, and if calls to the
// host take longer. So a long queue for one host is not claimed over and over. Producers choose the
// hosts, so the tables of hosts are bounded (hostTable, transportPool).
//
// # Several instances
//
// The slots of a host and the rate of a route are divided among the alive instances (View). While
// the set of instances does not change, the parts add up to the limit. After a change they may
// exceed it for one heartbeat. Running calls continue if the part shrinks. An instance whose part
// is zero hands the notice to an instance that has one (Fleet.HandOver).
//
// A rate is applied by starting calls one by one, at even distances. So in any second, each
// instance starts at most one call more than its part. To even out the load, a call may wait in its
// slot for its turn, for at most 250 ms.
//
// Instances send each other the states of their breakers (learn.go). If a breaker opens at one
// instance, it opens at all others too. The exception is an instance that the host has answered
// since the failures began. Each try is made by one instance, a different one each time, which
// publishes a success. Messages may be lost; then each instance finds out by itself.
//
// If one instance alone cannot reach a host, its own breaker stays open. It hands notices for that
// host to the instances that can reach it, due again in 50 ms. From time to time it tries the host
// with one notice. If it cannot connect, it hands over that notice too, which uses up no attempt.
//
// # Untrusted urls
//
// A producer may set the url of a notice, so such a url is not trusted. Package route has the
// rules. The url is checked when the notice is scheduled, and again before the call. After name
// resolution, the address is checked just before the socket connects. So a name that resolves
// differently the second time gains nothing.
//
// Two routes share connections only if their TLS files, proxies and permissions are the same. The
// url of a fixed target comes from the operator and is not checked. An outbound proxy resolves
// names itself, so behind a proxy only addresses in the url can be checked.
//
// # A suspended process
//
// A process can be suspended by SIGSTOP, by the migration of its VM or by a frozen cgroup. When it
// continues, its calls are past their deadlines, although the receivers did nothing wrong. An
// answer that arrived during the stop counts; up to 50 ms are spent on reading it. Otherwise, if a
// call ends more than a second after its deadline, its reason is interrupted, and the breaker
// ignores it. Over HTTP/2 the answer cannot be read, because the transport has closed the stream by
// then.
//
// # Transports
//
// The direct transport makes calls without TLS, and calls with TLS to receivers that have chosen
// HTTP/1.1 although HTTP/2 was offered. It runs in the goroutine of the caller, on pooled
// connections, with one deadline for the whole call. Without TLS, a call that waits for the answer
// holds no buffer.
//
// The transport of net/http makes all other calls: over HTTP/2, through proxies, and the first one
// to each receiver with TLS. It needs two more goroutines per connection. Both transports send the
// same bytes and parse answers with the reader of net/http, so an answer means the same with both.
// Another parser was measured and was not cheaper.
//
// A kept connection is checked before reuse. It is closed after 4 s without a call. If the
// receiver's Keep-Alive header announces another time, it is closed up to a second before that
// time. So few requests are sent to connections that the receiver is just closing.
//
// # Signatures
//
// Package sign computes the signatures. A receiver that can verify with a secret key can also forge
// with it. A route whose notices have their own urls has many receivers, so each receiver gets a
// separate key. The key is derived from the route's secret and the host, or the audience that the
// notice names (package route). For the same reason, a route's headers are sent only to the hosts
// that the configuration lists.
//
// A GET has no body. Its content is sent as the query of the url, and the signature covers the
// whole query in place of the body.
package callback
