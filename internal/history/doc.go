// Package history stores finalized notices in a database, PostgreSQL or SQLite, and searches them. A notice is
// finalized when it is delivered, dead, cancelled or replaced.
//
// # Data flow
//
//	a Lua script finalizes a notice ──▶ outbox ──▶ Shipper ──▶ row in the database
//	      (one step, in Redis)      (one per shard)   │            │
//	                                      ▲           ◀─ commit ───┘
//	                                      └── remove the entry
//
// An outbox is a list in Redis. The script that finalizes a notice appends an entry in the same step. The entry has
// the outcome, the record of the notice, and the time by Redis's clock.
//
// A [Shipper] moves entries from the outboxes to the database. Every instance with a history runs one. It locks an
// outbox, reads entries from the head, and writes them in one transaction. After the commit it removes them from the
// outbox.
//
// All outboxes together hold at most NOTIFIER_HISTORY_BACKLOG entries. Above that, the oldest entries are dropped and
// counted. The same happens if Redis has less than a fifth of its maxmemory left while the Shippers fail or are far
// behind.
//
// # Guarantees
//
//   - Lost entries: only those that are dropped as above, and those of erased notices. A crash loses none, because an
//     entry is removed only after the database has committed it.
//   - Duplicate rows: none. A row is identified by the time of its entry, the webhook-id, and how often the notice was
//     finalized. If an entry is written again, after a crash or by a second Shipper, the database finds the row and
//     changes nothing. The lock only avoids duplicate work. It expires after 10 s and is renewed.
//   - Delivery never waits for the database. While the database is unavailable, the outboxes grow.
//
// A crash of Redis that loses its last second of writes may undo the outcome of a notice that has a row already. The
// notice is then delivered and finalized again, and gets a second row with another time.
//
// # The database
//
// PostgreSQL has one partition per day. It is created before the first row of that day, and dropped when the retention
// has passed. SQLite serves only the instances of one machine.
//
// Numbered migrations change the schema. One instance migrates at a time. If the schema is newer than the program,
// operations return [ErrNewer] and neither read nor write. Notices are still delivered.
package history
