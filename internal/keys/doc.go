// Package keys defines the syntax of notice keys and the names of all Redis keys of this service.
//
// A notice key is app:module:type:id. It has three segments of 1 to 64 characters and an id of 1 to
// 128, each of letters, digits, '_', '.', '~' and '-'. Expired events of other keys belong to other
// programs; they are ignored and are not errors.
//
// The shard of a notice is selected by its order key ([OrderKey]), so that all notices of one business
// id are in one shard, in every configuration.
//
// The names of all keys of one notice contain its shard as a hash tag, {shard}, so that each script
// runs within one slot of a cluster. Only the timer has no tag, because its name is the notice key
// that the producer has chosen.
package keys
