// Package auth decides which clients may call the API, which notice keys a client may see, and how many calls it may
// make. The dashboard uses the same rules, and has sessions.
//
// A client is configured with a name, a token, a role and, if wanted, a prefix of keys. [Clients] finds the [Caller]
// that a token belongs to. The caller's role decides which calls and pages are allowed, and its prefix limits the keys.
//
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
//
// # Sessions
//
// How a visitor of the dashboard gets a session:
//
//	visitor           opens the dashboard with                 may
//	user of a client  the token of the client                  do what the client may
//	merchant's staff  a portal link, made by a client          see, and perhaps resend, the notices of the link
//	local user        nothing, if no client is configured      do everything
//
// A visitor gets a cookie, which holds the data of the session as JSON, with an HMAC-SHA256. The key of the HMAC is
// derived from the service's key and the client's token. So every instance accepts the cookies of all instances. If the
// token is changed or the client is removed, its sessions and links end. The rights of the client are read from the
// configuration at each request.
//
// Redis stores the ids of active sessions. So after a user has signed out, every instance refuses copies of the cookie.
// If Redis does not answer, the check of such a session returns an error and access is refused.
//
// A client has at most [MaxSessions] sessions. A further sign-in ends the session that expires first. A link has at
// most MaxSessions sessions, too. It then cannot be opened until one of them has ended.
//
// # Links
//
// A link is signed like a cookie, but with another key, so that neither is accepted as the other. It is valid until it
// expires or is revoked, which Redis records. A cookie of a link expires with the link, or after 12 hours if that is
// sooner.
//
// A link never has more rights than the client that made it. That is checked when the link is made, when it is opened
// and at each request.
//
// # Anonymous sessions
//
// If no client is configured, each visitor without a link gets an anonymous session, which Redis does not store. Its
// token ([Session.CSRF]) protects against cross-site request forgery.
package auth
