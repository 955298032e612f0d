// Package access decides which clients may call the API, which notice keys a client may see, and how many calls it may
// make. The dashboard uses the same rules.
//
// A client is configured with a name, a token, a role and, if wanted, a prefix of keys. [Clients] finds the [Caller]
// that a token belongs to. The caller's role decides which calls and pages are allowed, and its prefix limits the keys.
// [Meter] limits the rate of each client. By address, [Failures] limits calls with a wrong token, and [Anonymous]
// limits requests for the public keys, which need no token. Limits apply to each instance of the service separately.
//
// # Addresses behind proxies
//
// Each proxy appends the address of its peer to the header X-Forwarded-For. [Proxies] trust the header only if the
// connection comes from a proxy of the operator, because any other sender could forge it. They read the addresses from
// right to left. The client is the first one that is not a trusted proxy. If there is none, or a malformed entry comes
// first, the address of the last proxy read is used instead.
//
// The header X-Forwarded-Proto, also only from a trusted proxy, says whether the client uses TLS.
package access
