// Package session lets people in to the pages: it turns a client's token into a
// cookie, and a link that was made for a merchant's support desk into a narrower
// one.
//
// # What a cookie is
//
// The facts of a session in JSON and their HMAC-SHA256, both in base64url. The
// HMAC's key is derived from the service's own key (package keyring), for one
// purpose, and from the hash of the client's token. So every instance takes what
// another gave; what the client may do is looked up in the configuration each
// time; and when the token is changed, or the client is taken out, its sessions
// and its links end.
//
// Redis has the ids of the sessions that have not ended, so that every instance refuses
// a copy of a cookie after its owner has signed out. There are at most [MaxSessions] of a
// link, and of a client: a link that has so many is not opened, and a client loses the
// session that would end first. A session that ends leaves nothing in Redis, so opening
// and ending sessions cannot fill it, and no sign-out is ever forgotten.
//
// A link is signed likewise, with a key of another purpose, and is good while
// Redis has an entry of its id, which goes away when the link ends and is emptied when
// the link is revoked.
// It is never wider than the client that made it: neither then nor when it is
// opened, for the client's scope may have become narrower. The cookie that it is
// turned into ends with it.
//
// What cannot be checked, because Redis does not answer, is an error, and lets
// nobody in.
//
// # Without clients
//
// Whoever reaches the pages may do everything. A visitor gets a session all the
// same, an anonymous one, for the sake of its token against requests forged by
// pages of other sites. Links can be made, and narrow the view of who opens them;
// they keep nobody from opening the pages without them.
package session
