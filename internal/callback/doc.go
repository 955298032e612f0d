// Package callback delivers a notice by HTTP.
//
// One attempt is one request, signed afresh after Standard Webhooks v1, and one
// answer, judged by one pure function (verdict) to delivered, retry, dead or
// deferred with a reason from the closed set of package notice.
//
//	deferral checks → request → dial guard → exchange → verdict
//	(slots, rate, breaker)      (notice targets)
//
// Isolation. Limits are kept per route and destination (host:port), so that a
// merchant that hangs takes at most the route's host concurrency of slots, and
// after ten slow failures in a row one, tried after 5, 10, 20, 30, 30, … seconds.
// Hosts that did not answer last time, or were never called, share half of the
// route's concurrency: the other half is there for hosts that do answer, however
// many hang. 429 and 503 halve a host's slots; every round of good answers gives
// one back. What finds no slot, no rate or an open breaker is handed back at once
// as deferred: it uses no attempt and holds nothing. How long it is put off grows
// with the number of those refused and with how long calls take there, so that a
// long queue before one host does not churn.
//
// Targets. A notice's own url is untrusted: the address is checked when the
// socket is about to connect, after DNS, so a name that answers differently the
// second time gains nothing. Connections are shared only between routes with the
// same TLS files, proxy and permissions. A fixed target is the operator's word
// and is not checked. Behind an outbound proxy the proxy resolves names; there
// only addresses spelt out in the url can be checked.
//
// One request may be sent twice within one attempt in one case: an idle
// connection that turns out to be closed by the receiver before any byte of an
// answer came. It carries the same webhook-id, as every retry does.
//
// A GET has no body; its content stands in the query, and the signature covers
// the whole query string as sent in the body's place.
package callback
