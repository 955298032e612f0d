// Package access decides which clients may call the API, which notice keys a client may see, and how many calls it may
// make. The dashboard uses the same rules.
//
// A client is configured with a name, a token, a role and, if wanted, a prefix of keys. [Clients] finds the [Caller]
// that a token belongs to. The caller's role decides which calls and pages are allowed, and its prefix limits the keys.
// [Meter] limits the rate of each client. By address, [Failures] limits calls with a wrong token, and [Anonymous]
// limits requests for the public keys, which need no token. Limits apply to each instance of the service separately.
package access
