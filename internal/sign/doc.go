// Package sign signs callbacks in the ways that payment platforms do. A callback is the HTTP request that delivers a
// notice.
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
// Each scheme is a [Signer]. [New] makes a [Chain] of the schemes of a route. A route can have several schemes, so
// that its receivers can change from one to another one at a time. alipay runs first, because it appends its signature
// to the body, and the other schemes sign the body that is sent.
//
// # Keys and receivers
//
// The schemes standard, stripe and github use HMAC. A receiver that can verify such a signature could also forge it.
// So they can sign with a different key for each receiver, derived from the secret (see [Per]).
//
// The other schemes use private keys, and [Set] publishes the public ones. One key signs for all receivers, so a
// receiver must check that a callback was meant for it. A jws signature contains the receiver's host. With wechatpay
// and alipay the body must name the receiver.
//
// # Replayed callbacks
//
// The signatures of github and alipay contain no time. So an attacker can send an old callback again, and a receiver
// can only tell by its body.
//
// # Secrets
//
// Errors of this package never contain a secret, a private key or a body.
package sign
