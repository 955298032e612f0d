// Package keys is the one place that knows how a notice key is spelt and what
// every Redis key of this service is called.
//
// A notice key is app:module:type:id. Three segments of 1 to 64 characters and
// an id of 1 to 128, each of letters, digits, '_', '.', '~' and '-'. Anything
// else that a channel may bring is somebody else's key and no error.
//
// All keys of one notice share the hash tag {shard}, so that each script runs
// within one slot of a cluster. The timer is the exception: its name is the
// user's own, and it carries no tag.
package keys
