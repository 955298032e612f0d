// Package testcall makes test calls to the receivers of notices, for the pages and the API.
//
// A test is one signed callback with a test body to the address of a stored notice. Its key is the route's prefix,
// completed by parts named test, so a receiver can tell a test from a notice. The notice does not change, and the
// route's limits do not apply. Instead each client may send three tests of a route at once and six a minute, at each
// instance.
//
// A test takes at most the route's timeout and 50 seconds.
//
// The result is safe to show: the service's secrets are replaced by dots and the masking rules of the pages are
// applied. A client with a prefix gets the host and the status only, because the route's address and headers belong to
// the operator.
package testcall
