// Package wire sends commands and scripts to Redis. It opens connections in each mode (single server, Sentinel,
// cluster, TLS), interprets errors, confirms writes, and isolates the nodes of a cluster.
//
// # Scripts
//
// A script is a Lua file that is embedded by the package whose Go function runs it. [Client.Run] and its variants
// send scripts. Most scripts are guarded: they write nothing if the layout of the data in Redis is not the one that
// this process expects. Package layout implements the check as a [Guard].
//
// # Writes are sent once
//
// A write whose reply was lost is not sent again, because only the caller can decide whether that does harm. See
// [Once].
//
// # Confirmed writes
//
// A call of a script that is [Script.Confirmed] returns when replicas have received its writes, or when these are on
// disk; see [Confirm]. The error [ErrUnconfirmed] means that the write was made but not confirmed. The reply is then
// valid.
//
// # Clusters
//
// Calls to several nodes do not wait long for a node that does not answer. [Client.EachNode] and [Round] skip such a
// node, and a Round reports the shards that are missing.
package wire
