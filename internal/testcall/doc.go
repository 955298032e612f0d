// Package testcall sends test callbacks to the receivers of notices, for the dashboard and the API.
//
// A test is one signed callback with a test body to the address of a stored notice. The notice does not change. The key
// in the callback is the route's prefix, completed by parts named test, so a receiver can tell a test from a notice.
//
// The limits of the route do not apply. Instead, each client may run three tests of a route at once and six a minute,
// at each instance. A test takes at most the route's timeout and 50 seconds.
//
// The result contains no secret: the service's secrets are replaced by dots, and the masking rules of the dashboard are
// applied. A client with a prefix gets only the host and the status, because the route's address and headers belong to
// the operator.
package testcall
