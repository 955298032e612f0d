// Package engine delivers the notices that are stored in one Redis, from scheduling to the last attempt. An [Engine] is
// one instance of the service without its HTTP API, which package app adds.
//
//	New ──▶ Begin ──▶ Run ──▶ ctx of Run ends, Run drains and returns ──▶ Close
//
// The steps are:
//
//   - New opens no connection and never fails.
//   - Begin waits for Redis, and reads the layout of its data. Calls that come earlier wait briefly, and then return
//     an error, usually wire.ErrNotBegun.
//   - Run calls Begin, publishes heartbeats of this instance, and runs the parts below.
//   - When the context of Run ends, Run drains: it claims no more notices, and waits for a limited time until running
//     attempts have ended and their results are written. Until then the other parts run, and calls are served.
//   - Close refuses new schedule calls and waits for running ones. Package app calls it after the last API call has
//     ended.
//
// The main parts are:
//
//	listener    receives the expired events of Redis, which say that notices are due
//	sweepers    find overdue notices, each in one partition: the notices of one route in one shard
//	dispatcher  claims due notices and delivers them
//	adopter     turns timers that clients set in Redis into notices
//	janitor     deletes old notices periodically
//
// Only this package connects parts with each other, by small interfaces.
package engine
