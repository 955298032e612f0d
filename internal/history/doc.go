// Package history stores finalized notices in a database, PostgreSQL or SQLite, and searches them.
//
// # From a finalized notice to a row
//
//	a script finalizes a notice ──▶ outbox ──▶ Shipper ──▶ row in the database
//	    (one step, in Redis)     (one per shard)   │            │
//	                                  ▲            ◀─ commit ───┘
//	                                  └── remove the entry
//
// The script that finalizes a notice appends an entry to its shard's outbox, a list in Redis. The
// entry has the outcome, the record, and Redis's time. A Shipper takes a lock on an outbox, the
// hold. It reads entries from the beginning, writes them in one transaction, and removes the
// entries that the database has committed. Every instance with a history has a Shipper.
//
// An outbox has at most NOTIFIER_HISTORY_BACKLOG entries, and fewer while less than a fifth of
// Redis's maxmemory is left. Above that bound the oldest entries are dropped and counted.
//
// # Guarantees
//
//   - Lost: only entries that the bound or an erasure drops. A crash loses none: an entry is removed
//     only after the database has committed it, and only if it is the entry that was read.
//   - Duplicated: never. A row is identified by the time of its entry, the webhook-id and the number
//     of the ending. All three come from the script, so a second write of an entry finds the row in
//     the same partition and does nothing. A crash between commit and removal, or two Shippers with
//     the same entries, do no harm. The hold (10 s, renewed) only avoids duplicate work.
//   - Delivery never waits for the database. Only the outbox grows.
//   - If Redis loses its last second, it may lose an entry. If the database already has the entry,
//     the notice is claimed and finalized again, and the history has both entries, with different
//     times.
//
// # The database
//
// PostgreSQL has one partition per day. It is created before the first row of the day, and dropped
// as a whole after the retention. Numbered migrations change the schema, by one instance at a time.
// If the schema is newer than the program, the history returns ErrNewer and neither reads nor
// writes; notices are still delivered. SQLite serves only the instances of one machine.
package history
