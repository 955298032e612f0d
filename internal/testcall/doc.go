// Package testcall sends test callbacks to the receivers of notices, for the dashboard and the API.
//
// A test is one callback with a test body, signed as the route's other callbacks are. It goes to the address of a
// stored notice, and the notice does not change. The key in the callback ends with :test, so that a receiver can
// recognize it.
//
// At each instance, a client may usually start three tests of a route at once, then six a minute. The route's limits of
// concurrency and rate normally do not apply.
//
// The result contains no secret, and values that the dashboard masks are hidden. A client that may see only a part of
// the notices gets the outcome, but no content.
//
// The package is apart from package api, because the process and the pages use it too.
package testcall
