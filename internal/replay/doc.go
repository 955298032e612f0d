// Package replay delivers finalized notices of the history again. A replay selects the notices that were finalized
// within a window of time, and schedules each under its own key.
//
//	Maker:   reads the window's rows, selects notices, stores them in the database as items 1, 2, …
//	Driver:  reads the items, schedules them by a script in Redis, stores the progress in the database
//
// # Guarantees
//
//   - Selected once: the items are selected and numbered when the replay is created. A dry run uses the same code.
//   - Scheduled once: no item is scheduled twice, even if a driver is killed. The script stores the number of the last
//     scheduled item of each shard, and ignores items up to that number. Drivers send the items of a shard in order.
//   - Nothing lost by a replay: it never replaces a pending or claimed notice, or the dead letter of another notice.
//     Such an item is counted as skipped. A delivered or cancelled notice is replaced, because the history has it.
//   - Same identity: a replayed notice keeps its webhook-id. The numbers of its attempts continue, and so does the
//     count of how often it was finalized. A replay with new ids schedules new notices instead.
//
// # Several drivers
//
// Every instance runs a driver. One driver at a time works on a replay, so that its rate limit holds. It has a lease
// of 5 s, which it renews. If a driver is paused for longer, another one takes over, and for a moment both may send
// items. That does no harm, because the script ignores the items that were already sent.
//
// # Failures
//
// If Redis loses its last writes in a crash or failover, notices of a replay may be lost. The driver does not send
// them again, because they may have been delivered. They are counted as neither sent nor skipped.
//
// Progress is stored by shard. So a replay fails if the number of shards has changed, or if notices have moved to
// another Redis since it was created. During a migration no replay is created or resumed.
package replay
