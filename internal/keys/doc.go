// Package keys defines the syntax of notice keys, and the names of all Redis keys of this service.
//
// A notice key is app:module:type:id. The first three segments have 1 to 64 characters and the id has 1 to 128.
// Letters, digits, '_', '.', '~' and '-' are allowed. Expired events of other keys belong to other programs and are
// ignored.
//
// The shard of a notice depends only on its order key ([OrderKey]) and the current shards. So all notices of one
// business id are in the same shard.
//
// The names of a notice's Redis keys contain its shard as a hash tag, {shard}. So in a cluster they are in one slot,
// and a script can use all of them. Only the timer has no tag, because its name is the notice key.
package keys
