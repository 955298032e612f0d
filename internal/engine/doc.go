// Package engine delivers the notices that are stored in one Redis, from scheduling to the last attempt. It creates
// the parts of the service that do so, and starts and stops them in order. Package app adds the HTTP API.
//
// # Lifecycle
//
//	New ──▶ Begin ──▶ Run ──▶ ctx ends ──▶ Drain ──▶ Close
//
// The steps are:
//
//   - New opens no connection and never fails.
//   - Begin waits for Redis, reads the layout of its data and creates the parts. Calls that need
//     Redis wait for it, for at most half a second after New, and then return wire.ErrNotBegun.
//   - Run calls Begin, publishes heartbeats of this instance, and starts the parts. These are the
//     listener for expired events, a sweeper of overdue notices per partition, the adopter of plain
//     timers, the janitor for periodic cleaning, and further loops.
//   - When the context of Run ends, Drain stops claiming, waits for running handlers, and settles
//     their results. Until then the parts run, and API calls are served.
//   - Close waits for running schedule calls. The server calls it after the last API call has ended.
//
// # Ownership
//
// Run owns all goroutines of the parts and returns when they have ended. Close ends the goroutines that send schedule
// calls. Only this package connects parts with each other, by small interfaces.
package engine
