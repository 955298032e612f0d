// Package keys defines the syntax of notice keys, and the names of this service's Redis keys, but for those that only
// scripts use.
//
// A notice key identifies one delayed callback. It has the form app:module:type:id. Each of the first three segments
// has 1 to 64 characters, and the id has 1 to 128. ASCII letters, digits, '_', '.', '~' and '-' are allowed.
//
// A timer is a Redis key whose name is a notice key, and which expires when the notice is due. Redis reports each
// expiry as an event. Expired keys of other forms, for example of other programs, are not timers.
//
// Notices are spread over shards, which are parts of the data. The shard of a notice depends only on its order key
// ([OrderKey]), and on the number of shards. So notices with the same order key are in the same shard, except while a
// reshard (a change of that number) moves them.
//
// The names of the other Redis keys of a notice normally contain the hash tag of its shard, in braces. So in a cluster
// they are in one slot, and one script can use all of them.
package keys
