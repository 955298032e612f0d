// Package wire sends commands and scripts to Redis: a single server, a master behind Sentinel, or a cluster. It opens
// the connections, interprets errors, and waits until writes are confirmed.
//
// # Scripts
//
// A [Script] is a Lua file, which [Client.Run] sends. Most scripts are guarded: they write nothing if the layout of the
// data in Redis, such as the number of shards, is not the one that this process expects. Package store sends these.
//
// # Writes are sent once
//
// A write whose reply was lost may have been executed. This package does not send such a write again, because only the
// caller can decide whether a second execution does harm. See [Once].
//
// # Confirmed writes
//
// A failover or crash may lose a write that Redis has just answered. So the calls of some scripts wait until replicas
// or the disk have their writes: see [Script.Confirmed], [Script.ConfirmedSettle] and [Confirm]. The error
// [ErrUnconfirmed] means that the write was made, but that the confirmation did not come in time.
//
// # Clusters
//
// A cluster node that does not answer must not delay calls to other nodes. So calls to several nodes or shards, by
// [Client.EachNode] and [Round], skip such a node. A Round then reports the shards whose results are missing.
package wire
