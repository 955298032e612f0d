// Package history keeps what has ended in a database, PostgreSQL or SQLite, and
// finds it again.
//
// # How an ending becomes a row
//
//	settle, amend, schedule, adopt ──▶ list of endings ──▶ Shipper ──▶ row
//	       (one script, in Redis)      (one for a shard)       ▲          │
//	                                          ▲                └── Hold ◀─┘ confirmed
//	                                          └── the bound, Shed: the oldest go, counted
//
// The script that ends a notice puts the ending, with the record as it then was
// and Redis's time, on its shard's list. A Shipper holds a list, reads from its
// beginning, writes what it read in one transaction, and takes off the list what
// the database has confirmed. Every instance with a history has one.
//
// # What holds
//
//   - Each ending that is on a list becomes a row, unless it is dropped by the
//     bound, by memory that runs short, or by an erasure: nothing is taken off
//     before the database has committed it, and only if it still is what was read.
//   - A row stands once. What tells it is the time of its ending, the webhook-id
//     and the number of the ending, all of which come from the script; a second
//     writing of the same ending meets the same row, in the same partition, and
//     does nothing. So it does no harm to be killed between commit and
//     confirmation, nor when two Shippers bring the same.
//   - The hold (10 s, renewed) only keeps them from doing the work twice.
//   - A database that does not answer delays no delivery: nothing waits for it but
//     the list, which holds NOTIFIER_HISTORY_BACKLOG endings at most, and is
//     shortened while Redis has less than a fifth of its maxmemory left.
//   - An ending that Redis forgets, because it lost its last second, is not in
//     history either, unless it was brought there before: then the notice is
//     claimed and ends again, and history has both endings, at two times.
//
// # The database
//
// PostgreSQL has a partition for each day, made before the first row of the day
// and dropped as a whole after the retention. The schema changes by numbered
// migrations, one instance at a time; a schema that is newer than the program is
// refused with ErrNewer, and then nothing is written or read, while notices are
// delivered all the same. SQLite is for the instances of one machine.
package history
