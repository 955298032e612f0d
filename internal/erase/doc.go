// Package erase deletes personal data: the finalized notices of one key, or of one host that was called. It deletes
// them from the history's database, from Redis, and from the outboxes. An outbox is a list in Redis of finalized
// notices that are not in the database yet.
//
// # Steps
//
//	record      the database records the erasure; from then on it refuses entries of these notices
//	Redis       settled notices, dead letters and their tombstones are deleted
//	database    the rows are deleted last, because they name the notices to delete in Redis
//
// Each step may be repeated. So after an error the caller calls [Eraser.Erase] again.
//
// # Guarantees
//
// Pending notices stay, and are counted. The database will store their outcome, because it refuses only notices that
// were finalized before the erasure.
//
// The record of an erasure contains a digest of the key or host. [Eraser.Tend] deletes it when no outbox may contain
// an older entry any more.
package erase
