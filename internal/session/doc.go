// Package session manages the sessions of the dashboard. A user signs in with a client's token. A merchant's support
// staff open a portal link instead, which shows only the notices of that merchant. Both get a cookie.
//
// # Cookies
//
// A cookie holds the data of a session as JSON, with an HMAC-SHA256. The key of the HMAC is derived from the service's
// key (package keyring), the purpose, and the hash of the client's token. So every instance accepts the cookies of all
// instances. If the token is changed or the client is removed, its sessions and links end. The rights of the client
// are read from the configuration at each request.
//
// Redis stores the ids of active sessions. So after a user has signed out, every instance refuses copies of the
// cookie.
//
// A client and a link have at most [MaxSessions] sessions each. A link with the maximum cannot be opened. At a
// client's next sign-in, the session that expires first is ended.
//
// # Links
//
// A link is signed in the same way, with the key of another purpose. It is valid while Redis has an entry with its id
// that is not empty. The entry expires with the link, and a revocation empties the entry. A cookie of a link expires
// with the link.
//
// A link never has more rights than the client that made it. That is checked when the link is made and again when it
// is opened.
//
// # Failures
//
// If Redis does not answer, a check returns an error and access is refused.
//
// # Without clients
//
// If no client is configured, any visitor may do everything. Each visitor gets an anonymous session, whose token
// protects against cross-site request forgery. A visitor with a link sees only the notices of the link.
package session
