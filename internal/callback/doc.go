// Package callback delivers notices by HTTP. An attempt sends one request to the receiver, normally signed. The answer
// decides the outcome: delivered, retry, dead (no more retries) or deferred (due again later, without using up an
// attempt). The steps of an attempt are:
//
//	check     refuse a url that the route does not allow
//	limits    defer the notice if the host has no free slot, the rate is used up or the breaker is open
//	token     get an OAuth 2 access token, on routes that need one
//	exchange  build and sign the request; package transport sends it and reads the answer
//	result    decide the outcome
//
// The package stores nothing: the caller writes the result to Redis. Within an attempt, a request that the receiver may
// have read in full is not sent again. Only after an answer of 401 the call may be repeated once, with a new access
// token.
//
// A host that hangs must not delay calls to other hosts. So each host (with its port) of a route has its own limits:
//
//   - Slots limit its concurrent calls (the setting HOST_CONCURRENCY). Answers of 429 or 503 may reduce them.
//   - A circuit breaker stops calls after several slow failures in a row. Single calls then test the host.
//   - If clients choose the hosts, new and hanging hosts normally share half of the route's concurrency.
//
// By default, the alive instances share the slots of each host and the rate of each route (calls per second). After
// an instance has started or ended, they may exceed the limits until running calls have ended. A breaker that opens at one instance
// normally opens at the others, too. If the message about it is lost, each instance finds out by its own calls.
//
// A url that a client has chosen is not trusted. It is checked when the notice is scheduled and before the call, and
// normally its address just before the socket connects. An outbound proxy resolves names itself, so behind a proxy only
// addresses in the url can be checked. With such urls, each receiver normally gets a separate key for signatures.
package callback
