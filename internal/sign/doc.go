// Package sign signs callbacks in the ways that payment platforms and other services do. A callback is the HTTP request
// that delivers a notice. Each scheme is a [Signer]:
//
//	scheme            signed text                         key
//	standard          id.timestamp.body                   each secret, decoded from base64
//	standard-ed25519  id.timestamp.body                   the first Ed25519 key
//	stripe            timestamp.body                      each secret, as it is written
//	github            body                                the first secret, as it is written
//	wechatpay         timestamp\nnonce\nbody\n            the first RSA key
//	alipay            the fields of a form body, sorted   the first RSA key
//	jws               header of the JWS, dot, body        the first Ed25519 or P-256 key
//	sorted            the fields of the body, sorted      the text key
//	sorted-jeepay     the same, sorted without case       the text key
//
// [New] makes a [Chain] of all schemes of a route. With several schemes, receivers can change from one to another at
// different times.
//
// With standard, stripe, github (HMAC), sorted and sorted-jeepay, a receiver that can verify signatures can also forge
// them. So the service can use a different key for each receiver, derived from the secret (see [Per]).
//
// The other schemes use private keys, the same for all receivers. So a signature is valid at any receiver, and each
// must check that the callback was meant for it. A jws signature contains the receiver's host. With the other three
// schemes, the body must name the receiver. [Set] encodes the public keys as a JSON Web Key Set.
//
// The signatures of github, alipay, sorted and sorted-jeepay contain no time. So an attacker can send an old callback
// again, and a receiver can recognise the repetition only by the content of the body.
//
// Errors about keys and callbacks contain no secret, no private key and no body.
package sign
