// Package seal encrypts the content of notices under keys of their subjects, and those keys under keys of the service.
// docs/security.md has the format, so that programs in other languages can read it.
//
//	service key ──wraps──▶ data key of a subject   ──seals──▶ text: a content, an answer, a history entry
//	            ──wraps──▶ digest key of a subject ──digests─▶ content, to compare repeated calls
//
// A [Subject] is a route, an audience or an order key. Destroying the keys of a subject makes its texts unreadable.
//
// # Guarantees
//
// Every call of [DataKey.Seal] draws a random content id, from which it derives a key for this one text. So the number of
// texts of a data key has no limit, and two texts of the same content differ.
//
// A text opens only with the namespace, the notice key and the data key of its sealing. A wrapped key opens only with the
// namespace, the subject, the id and the use of its wrapping. A changed text does not open.
//
// A text shows its kind, the id of its data key, and the length of its content. Seal does not hide how often a text was
// sealed, and does not detect that an older text of the same notice was put back.
//
// Errors and printed keys contain no secrets.
//
// The package is apart from package vault, which needs Redis, because routes and the configuration use keys too.
package seal
