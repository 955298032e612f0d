// Package session manages the sessions of the dashboard. How a visitor gets a session:
//
//	visitor           opens the dashboard with                 may
//	user of a client  the token of the client                  do what the client may
//	merchant's staff  a portal link, made by a client          see, and perhaps resend, the notices of the link
//	local user        nothing, if no client is configured      do everything
//
// A client is a name in the configuration with a token and rights.
//
// # Cookies
//
// A visitor gets a cookie, which holds the data of the session as JSON, with an HMAC-SHA256. The key of the HMAC is
// derived from the service's key (package keyring) and the client's token. So every instance accepts the cookies of all
// instances. If the token is changed or the client is removed, its sessions and links end. The rights of the client are
// read from the configuration at each request.
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
package session
