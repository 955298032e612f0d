// Package history stores finalized notices in a database, PostgreSQL or SQLite, and searches them. A notice is
// finalized when it is delivered, dead, cancelled or replaced. Redis keeps delivered and cancelled notices only for a
// time, NOTIFIER_RETENTION at most.
//
// # Data flow
//
//	a Lua script finalizes a notice ──▶ outbox ──▶ Shipper ──▶ row in the database
//
// The notices are divided into shards. An outbox is a list in Redis, one per shard. The script that finalizes a notice
// appends an entry in the same step. The entry has the outcome, the content and attempts of the notice, and the time by
// Redis's clock.
//
// A [Shipper] moves entries from the outboxes to the database. Every instance with a configured history runs one. A
// Shipper locks an outbox, reads entries from the head, and usually writes them in one transaction. After the commit it
// removes them from the outbox.
//
// The outboxes together hold about NOTIFIER_HISTORY_BACKLOG entries at most. Above that, the oldest entries are dropped
// and counted. Some may also be dropped when Redis is short of memory.
//
// # Guarantees
//
//   - Lost entries: those that are dropped or cannot be read, and those of keys and hosts that an operator has erased
//     ([DB.Erase]). A crash of an instance loses none, because an entry is removed only after the database has
//     committed it.
//   - Duplicate rows: none. A row is identified by the time of its entry, the ID of the notice (the webhook-id), and a
//     number: 1 for the first outcome of the notice, 2 for the next one, for example after a resend. If an entry is
//     written again, after a crash or by a second Shipper, the database finds the row and changes nothing.
//   - Delivery never waits for the database. While the database is unavailable, the outboxes grow.
//
// A crash of Redis that loses its last second of writes may undo the outcome of a notice that has a row already. The
// notice is then delivered and finalized again, and gets a second row, because the time of the entry differs.
//
// # Sealed notices
//
// The row of a sealed notice has its sealed texts and no clear text. The table history_seals has their data keys, wrapped with a
// service key, because Redis may lose its keys. The transaction that writes a row stores the key with it. [DB.ForgetKeys] deletes the
// keys of a subject, and no later row brings them again.
//
// # The database
//
// Packages worker/pghistory and worker/sqlitehistory have the drivers and the migrations; a program imports the ones that it
// needs.
// PostgreSQL has one partition per day. It is created before the first row of that day, and dropped when the retention,
// if one is set, has passed. SQLite serves only the instances of one machine.
//
// Numbered migrations change the schema. One instance migrates at a time. If the schema is newer than a program that
// starts, operations return [ErrNewer] and neither read nor write. Notices are still delivered.
package history
