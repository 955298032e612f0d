// Package wire speaks to Redis: connections in each mode, scripts, errors, confirmed
// writes, and the nodes of a cluster. It does not know what the keys hold.
//
// A script is one Lua file, embedded by the package whose Go function runs it, and sent by
// [Client.Run] or one of its variants. A guarded script is sent by the [Guard], which is
// package layout's.
//
// # Writes are sent once
//
// A write whose answer was lost is not sent again: see [Once]. The caller knows whether
// repeating it is safe. A script that a server does not know (NOSCRIPT) was not run, so its
// text is sent instead.
//
// # Confirmed writes
//
// A script that is [Script.Confirmed] returns once replicas have its writes, or once they
// are on disk; see [Confirm]. [ErrUnconfirmed] says that the write was made, and the reply
// is there.
//
// # Clusters
//
// Calls that go over several nodes do not wait long for a node that does not answer:
// [Client.EachNode] and [Round] skip it, and a Round returns the shards that are missing.
package wire
