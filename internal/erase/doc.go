// Package erase deletes the finalized notices of one key, or of one called host, from the history's
// database, from the outboxes and from Redis. An outbox is the list of finalized notices that wait
// in Redis for the database.
//
// # Order of the steps
//
//	refuse      the database stores a record, by which it refuses these notices if an outbox delivers them later
//	Redis       settled notices, dead letters and their tombstones are deleted
//	database    the rows are deleted last, because they name the notices to delete in Redis
//
// Each step may be repeated, so after an error the caller erases again.
//
// # Guarantees
//
// Pending notices stay, and are counted. Their later outcome is recorded, because only entries that
// ended before the erasure are refused. The record of an erasure contains a digest of the key or
// host. It is deleted when all outboxes have passed the time of the erasure ([Eraser.Tend]).
package erase
