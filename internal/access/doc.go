// Package access decides who may call the API, which keys a client may see, and how many calls it may make. The
// dashboard uses the same rules.
//
// [Clients] finds the [Caller] of a token. The caller's role decides which calls and pages are allowed, and its prefix
// limits the keys. [Meter] limits the rate of each client, [Anonymous] limits calls without a token, and [Failures]
// limits attempts with a wrong token. All limits apply to each instance separately.
package access
