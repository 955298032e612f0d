// Package testcall sends test callbacks to the receivers of notices, for the dashboard and the API.
//
// A test is one signed callback with a test body. It goes to the address of a stored notice, which does not change.
// The key in the callback ends with parts named test, such as app:test:test:test for the route app. So a receiver can
// tell a test from a notice.
//
// The limits of the route do not apply. Instead, each client may run three tests of a route at once and six a minute,
// at each instance. A test ends after the route's timeout, or after 50 seconds if that is sooner.
//
// The result contains no secret: dots replace the service's secrets, and the dashboard's masking rules are applied. A
// client that is limited to a prefix gets only the host and the status.
package testcall
