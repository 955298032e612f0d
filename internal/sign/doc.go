// Package sign signs callbacks in the ways that payment platforms do.
//
//	scheme            signs                      key
//	standard          id.timestamp.body          each secret's bytes
//	standard-ed25519  id.timestamp.body          the first Ed25519 key
//	stripe            timestamp.body             each secret's text
//	github            body                       the first secret's text
//	wechatpay         timestamp\nnonce\nbody\n   the first RSA key
//	alipay            the form's fields, sorted  the first RSA key
//	jws               protected header.body      the first Ed25519 or P-256 key
//
// A route can sign each callback with several schemes at once, so that its receivers can change
// from one scheme to another one by one. [New] makes the [Chain] of a route's schemes. Each scheme
// is a [Signer].
//
// Order. alipay runs first: it appends its signature to the body, and the other schemes
// sign the body that is sent.
//
// Receivers. A secret that verifies can also forge. So the HMAC schemes sign with a key
// derived for each receiver (see [Per]). The keys of the other schemes are asymmetric:
// receivers hold the public part, which [Set] publishes. One such key signs for all
// receivers, so a receiver must check that a callback was meant for it. jws signs the
// receiver's host. With wechatpay and alipay the body must name the receiver.
//
// Time. The signatures of github and alipay contain no time. So a receiver cannot distinguish an
// old callback that is sent again from a new one, except by its body.
//
// Errors and texts of this package never contain a secret, a private key or a body.
package sign
