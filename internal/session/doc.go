// Package session signs users in to the pages. It exchanges a client's token for a cookie, and a
// portal link, which gives a merchant's support desk access to its own notices, for a narrower
// cookie.
//
// # Cookies
//
// A cookie holds the facts of a session in JSON and their HMAC-SHA256, both in base64url. The
// HMAC's key is derived from the service's key (package keyring), the purpose, and the hash of the
// client's token. So every instance accepts cookies of all instances. The client's rights are read
// from the configuration at each request. When the token is changed or the client is removed, its
// sessions and links end.
//
// Redis holds the ids of active sessions, so that every instance refuses a copied cookie after its
// owner has signed out. A link and a client have at most [MaxSessions] each. A link at the maximum
// cannot be opened; for a client, the session that expires first ends. A session that has ended
// leaves nothing in Redis, so that sign-ins cannot fill Redis and sign-outs are permanent.
//
// # Links
//
// A link is signed in the same way, with a key of another purpose. It is valid while Redis has
// a non-empty entry with its id. The entry expires with the link; a revocation empties the entry. A
// link never has more rights than the client that made it, neither when it is made nor when it is
// opened: the client's scope may have become narrower. Its cookie expires with the link.
//
// If Redis does not answer, a check fails with an error and access is refused.
//
// # Without clients
//
// If no client is configured, any visitor may do everything. The visitor still gets an anonymous
// session, whose token protects against requests forged by pages of other sites. Links narrow what
// their own visitors see, but the pages stay open to everybody without a link.
package session
