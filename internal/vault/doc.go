// Package vault seals the contents of notices under the keys of their subjects, and opens them. It stores these keys in Redis,
// wrapped with a service key: in one hash of each shard (keys.Space.Seals).
//
//	field          value
//	subject        <id of the data key> <id of the digest key> <wrapped digest key>
//	id of a data   <subject> <wrapped data key>
//	key
//
// # Guarantees
//
// A text is sealed only with a data key that the shard has: Seal stores the key first. If Redis has lost it, schedule.lua refuses
// the text (store.ErrNoDataKey), and [Vault.Forget] lets the next Seal store a new one.
//
// All instances use the same keys for a subject in a shard: the first instance that stores them wins.
package vault
