// Package wire sends commands to Redis: connections in each mode, scripts, errors, confirmed
// writes, and the nodes of a cluster. It does not interpret the keys' contents.
//
// A script is one Lua file, embedded by the package whose Go function runs it, and sent by
// [Client.Run] or one of its variants. Most scripts are guarded: Redis refuses them if the layout of
// its data is not the one that this process expects. Package layout implements that check as a
// [Guard].
//
// # Writes are sent once
//
// A write whose reply was lost is not sent again: see [Once]. The caller knows whether repeating it
// is safe. A script that a server does not know (NOSCRIPT) was not run, so its text is sent
// instead.
//
// # Confirmed writes
//
// A script that is [Script.Confirmed] returns once replicas have its writes, or once they are on
// disk; see [Confirm]. With [ErrUnconfirmed] the write was made, and the reply is valid.
//
// # Clusters
//
// Calls to several nodes do not wait long for a node that does not answer: [Client.EachNode] and
// [Round] skip it, and a Round returns the shards that are missing.
package wire
