// Package vault seals the contents of notices under the keys of their subjects, and opens them. It stores these keys in Redis,
// wrapped with a service key: in one hash of each shard (keys.Space.Seals).
//
//	field          value
//	subject        <id of the data key> <id of the digest key> <wrapped digest key>
//	id of a data   <subject> <wrapped data key>
//	key
//	forgotten:     Unix ms when the subject was forgotten
//	<subject>
//	forgotten:<id  the same, and the subject: its data key was deleted
//	of a data key>
//	unused:<id>    Unix ms since when no record names the data key
//	since:<id>     Unix ms since when the data key seals new texts of its route or audience
//	lifted:        Unix ms when such a mark was ended
//	<subject>
//	recalled       the state of the history's marks that the shard has
//
// # Guarantees
//
// A text is sealed only with a data key that the shard has: Seal stores the key first. If Redis has lost it, schedule.lua refuses
// the text (store.ErrNoDataKey), and [Vault.Forget] lets the next Seal store a new one.
//
// A key is used for [KeyAge] after it was read, by the monotonic clock. So KeyAge after [Vault.ForgetSubject] no running instance uses
// the keys of the subject, even one that is frozen or has lost Redis. A key that an attempt has begun with seals its answer later.
//
// A mark refuses new keys of its subject in the same step in which they would be stored (sealkey.lua), and schedule.lua refuses texts
// whose data key is deleted. So no notice that is stored after the mark is readable.
//
// An [Archive], the history, has data keys that Redis may have lost. They only open texts.
//
// All shards and instances use the same keys for a subject: the first instance that stores them in the subject's home wins. That is the
// shard of a hash of its name. Another shard gets a key when it first needs it, from the home or, after a reshard, from an old place.
// [Copy] copies the keys to another Redis, for a migration.
package vault
