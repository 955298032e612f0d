// Package replay delivers notices of the past again, for example after a receiver has lost data. It takes them from the
// history, a database with the finalized notices (delivered, dead, cancelled or replaced).
//
//	Maker   selects the notices of a window of time, stores them in the database as items 1, 2, …
//	Driver  reads the items, schedules them by a script in Redis, stores the progress in the database
//
// # Guarantees
//
//   - The items are selected and numbered once, when the replay is created.
//   - No item is scheduled twice, even if a driver is killed, while Redis keeps its data: the script stores the number
//     of the last processed item of each shard (a part of the notices in Redis), and ignores items up to that number.
//   - A replay never replaces a pending or claimed notice, or the dead letter of another notice. It also skips an item
//     whose notice was cancelled.
//   - A replayed notice keeps its webhook-id, and its attempts continue the old numbering. If the request asks for new
//     ids, new notices are scheduled instead.
//
// One driver at a time works on a replay, so that the replay's rate limit holds. It has a lease of 5 s, which it
// renews. If it stops, the driver of another instance takes over.
//
// # Failures
//
// If Redis loses its last writes in a crash or failover, notices of a replay may be lost. The driver sends only the
// unfinished batch again, because the others may have been delivered. A replay fails if the number of shards has
// changed, or if notices have moved to another Redis since it was created, because Redis stores its progress by shard.
package replay
