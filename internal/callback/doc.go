// Package callback delivers a notice by HTTP.
//
// One attempt is one request, signed afresh after Standard Webhooks v1, and one
// answer, judged by one pure function (resultOf) to delivered, retry, dead or
// deferred with a reason from the closed set of package notice.
//
//	deferral checks → request → dial guard → exchange → result
//	(slots, rate, breaker)      (notice targets)
//
// Isolation. Limits are kept per route and destination (host:port), so that a
// merchant that hangs takes at most the route's host concurrency of slots, and
// after ten slow failures in a row one, tried after 5, 10, 20, 30, 30, … seconds.
// Hosts that did not answer last time, or were never called, share half of the
// route's concurrency: the other half is there for hosts that do answer, however
// many hang. Three answers of 429 or 503 in a row halve a host's slots, one among good
// answers takes a part of a slot; every round of good answers gives one back. What finds no slot, no rate or an open breaker is handed back at once
// as deferred: it uses no attempt and holds nothing. How long it is put off grows
// with the number of those refused and with how long calls take there, so that a
// long queue before one host does not churn. Producers choose the hosts, so what is
// known of them is bounded (hostTable, transportPool).
//
// Instances. Slots of a host and a route's rate are shared out over the instances
// that live (View): the parts never sum up to more than the limit while nobody
// comes or goes, and for a heartbeat at most when somebody does. A call under way
// is not cut short when the part shrinks. A part of nothing is not a limit of
// none: what comes to an instance without a part is put off and handed to one that
// has some (Fleet.Hand). Calls at a rate begin one by one, so that any number of
// instances together begin at most one more each than the rate in a second; a
// call waits up to 250 ms in its slot for its turn, which evens out how many come
// to each instance. Breakers are told of (learn.go): what opens at one instance
// opens at all, but where the host has answered since; one instance, another for
// each try, makes the next, and whoever gets an answer tells all. Messages may be
// lost: then each finds out by itself, as it would alone.
//
// An instance that alone cannot reach a host keeps its own breaker open and hands every
// notice for that host to the instances that reach it, due again in 50 ms. It tries the
// host itself from time to time, with one notice. If that trial cannot connect, the notice
// is handed over as well and uses no attempt.
//
// Targets. A notice's own url is untrusted. The rules are package route's, which
// asks them when the notice is scheduled of what the url spells out; here they are
// asked again, and of the address that the socket is about to connect to, after
// DNS, so a name that answers differently the second time gains nothing. Connections are shared only between routes with the
// same TLS files, proxy and permissions. A fixed target is the operator's word
// and is not checked. Behind an outbound proxy the proxy resolves names; there
// only addresses spelt out in the url can be checked.
//
// A process that stood still (SIGSTOP, a VM that is moved, a frozen cgroup) finds its
// calls over time, which says nothing of their receivers. An answer that came meanwhile
// is read, for up to 50 ms, and counts. A call that ended more than a second after its
// deadline without an answer is interrupted, and no failure for the breaker. Over HTTP/2
// such an answer is not read: the transport has given up the stream by then.
//
// Transports. A call without TLS, and one to a receiver that was offered HTTP/2 and
// chose HTTP/1.1, is made by the direct transport: in the goroutine that asks for it,
// on a connection from a pool of its own, with one deadline for all of it, and with
// net/http's reader of answers, so that an answer means the same on either way.
// net/http's transport has two more goroutines for each connection and hands each
// call over and back; it makes the calls over HTTP/2, through proxies, and the first to
// each receiver with TLS. Both send the same bytes. While a direct call without TLS
// waits for its answer, it holds no buffer. (A parser of another library in the
// place of net/http's reader was measured and took no less.)
//
// Connections. A request is sent again within its attempt only if it was surely
// not read whole: on a kept connection that took no byte of it, or not all of it.
// What was written whole and is not answered is a failed attempt, for the receiver
// may be at work on it; net/http's own repeating of GETs and of requests with an
// Idempotency-Key is kept from it. So that this costs few attempts, a kept
// connection is looked at before it is used, and closed when it was idle for 4 s,
// or for what the receiver's Keep-Alive header says, less a second.
//
// Signatures. Package sign makes them. Where each notice brings its url, a route has many receivers, and
// what one of them can verify with it can forge with: so each verifies with a key
// of its own, derived from the route's secrets over its host or the audience that
// the notice names (package route). For the same reason a route's headers go only
// to the hosts that the configuration lists.
//
// A GET has no body; its content stands in the query, and the signature covers
// the whole query string as sent in the body's place.
package callback
