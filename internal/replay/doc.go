// Package replay sends finalized notices of the history again: those that were finalized within
// a window of time. Each notice is scheduled again under its own key.
//
//	Make:    reads the window's rows, selects notices, stores them in the database as items 1, 2, …
//	Driver:  reads the items, schedules them by a script in Redis, stores the progress in the database
//
// # Guarantees
//
// The items of a replay are selected and numbered once, when it is created. A dry run uses the same
// code.
//
// Each item is processed once, even if a driver is killed. For each shard, the script stores the
// number of the last item, in the same step that schedules the item and counts its result. It
// ignores numbers that are not above the last one. Every driver processes the items of a shard in
// the order of their numbers, so none is skipped.
//
// One driver at a time holds a replay, by a lease of 5 s that it renews, so that there is one rate
// limit. If a driver was suspended and continues after its lease, two drivers send items. That does
// no harm: the items of the first have numbers that the second has already used.
//
// A replay never replaces a pending or claimed notice, or the dead letter of another notice: the
// item is counted as skipped. It replaces a settled notice, which is in the history.
//
// A replayed notice keeps its generation, and so its webhook-id. The numbers of its attempts and
// endings continue, so that no consumer's report and no row of the history is confused with an
// earlier one. With new ids it is a new notice.
//
// # What may be lost
//
// Writes that Redis loses (its last second, a failover) are lost as for any other notice scheduled
// at that time. The driver does not repeat them, because the notices may have been delivered. They
// are counted as neither sent nor skipped.
//
// Progress is stored by shard. So a replay fails if its shards have changed, or if notices move to
// another Redis or have moved there since it was created. During a migration no replay is created
// or resumed.
package replay
