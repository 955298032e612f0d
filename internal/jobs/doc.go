// Package jobs has the operations on many notices: replays, redirects, bulk changes and erasures.
//
//   - A replay delivers notices of the past again, for example after a receiver has lost data.
//   - A redirect changes the URLs of pending notices whose receiver has moved to another address.
//   - A bulk change cancels pending notices, or redrives or purges dead letters.
//   - A [Sealer] seals the notices that were stored before their routes sealed.
//   - An erasure deletes personal data: the finalized notices of one key, or of one host that was called.
//
// One driver at a time works on a replay, a redirect or a bulk change. It has a lease of 5 s for that job, which it renews. If it stops,
// the driver of another instance continues from the stored progress. A repeated step changes nothing. An instance drives up
// to four jobs of a client at a time.
//
// # Replays
//
// A replay takes its notices from the history, a database with the finalized notices (delivered, dead, cancelled or
// replaced).
//
//		ReplayMaker  selects the notices of a window of time, stores them in the database as items 1, 2, …
//		Replayer     reads the items, schedules them by a script in Redis, stores the progress in the database
//
//	  - The items are selected and numbered once, when the replay is created.
//	  - No item is scheduled twice, even if a driver is killed, while Redis keeps its data: the script stores the number
//	    of the last processed item of each shard (a part of the notices in Redis), and ignores items up to that number.
//	  - A replay never replaces a pending or claimed notice, or the dead letter of another notice. It also skips an item
//	    whose notice was cancelled.
//	  - A replayed notice keeps its webhook-id, and its attempts continue the old numbering. If the request asks for new
//	    ids, new notices are scheduled instead.
//	  - Each replay has its own rate limit.
//
// If Redis loses its last writes in a crash or failover, notices of a replay may be lost. The driver sends only the
// unfinished batch again, because the others may have been delivered. A replay fails if the number of shards has
// changed, or if notices have moved to another Redis since it was created, because Redis stores its progress by shard.
//
// # Redirects
//
// A rule says which URLs change, and how. It is stored in each shard before the call that makes a redirect is answered.
// From then on each claim returns it, and the attempt uses the new address. Attempts of claims made before may use the old
// one.
//
// A [Changer] reads the pending notices in passes, and builds new records for those that match. A script writes a new
// record, unless the notice is claimed or has changed since it was read. Such a notice is visited again in the next
// pass. The redirect is done when a pass has left no such notice, unless the shards change in the meantime.
//
//   - A changed notice carries the redirect's id, and later steps skip it. So it does no harm if the new address matches the
//     rule again.
//   - A redirect ends, even while producers still use the old address: only notices that were created before the
//     redirect are changed.
//   - Webhook-id, attempts, due time and place in a sequence (notices that are delivered in order) stay.
//   - Some credentials are dropped if the new address is another receiver, unless the rule keeps them. These are the
//     user and password in the URL, and the headers Authorization, Cookie and Proxy-*.
//   - A notice that is held because its old receiver is paused is released, so that the new receiver gets it: see package
//     receivers. Several are spread over up to a minute.
//   - If the route of a notice does not allow the new address, the notice stays unchanged and is counted as refused.
//
// Redirects are made one after the other, the oldest first; one that fails does not hold up the next one, which then ends
// later. A redirect never changes a notice that a later one has changed, so two of them do not change the same notices
// alternately.
//
// A partition (route and shard) that cannot be visited, because a node is unreachable or a key has a foreign type, is left
// to the next pass. Its redirect is not done until then; the other partitions and redirects go on. The state is read after
// each failure, so a failing redirect can be stopped. While notices move to other shards, passes are repeated until the
// move is complete.
//
// # Bulk changes
//
// A bulk change is driven like a redirect, at a rate of changes a second. amend.lua changes the notices and counts them in the
// same step, so the count is right whatever instance repeats a call.
//
//   - A cancel takes the pending notices that were created before it and are due in its window. A notice with an attempt in
//     flight stays and is counted. If a notice has changed since it was read, it is read again.
//   - A redrive or purge takes the dead letters that died before it began. A redriven notice carries the job's id, and is not
//     taken again if it dies again.
//
// # Erasures
//
//  1. The database records the erasure. From then on it refuses entries from before the erasure. Such entries may still
//     be in an outbox, a list in Redis of entries that are not in the database yet.
//  2. Settled notices, dead letters and tombstones (short records of removed notices, package store) are deleted from
//     Redis.
//  3. The entries are deleted from the database. They come last: only they say which keys belong to a host, and step 2
//     needs these keys to find tombstones.
//
// Each step may be repeated. So after an error the caller calls [Eraser.Erase] again. Pending notices stay.
//
// The record of an erasure has a digest of the key or host, and the time of the erasure. A pending notice is finalized
// after that time, so the database accepts its entry. [Eraser.Tend] deletes the record when no outbox can contain an entry
// from before the erasure.
package jobs
