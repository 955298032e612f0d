// Package erase deletes personal data: the finalized notices of one key, or of one host that was called. They are
// deleted from Redis and from the history, a database with an entry for each finalized notice. Pending notices stay.
//
// # Steps
//
//  1. The database records the erasure. From then on it refuses entries from before the erasure. Such entries may still
//     be in an outbox, a list in Redis of entries that are not in the database yet.
//  2. Settled notices, dead letters and tombstones (short records of removed notices, package store) are deleted from
//     Redis.
//  3. The entries are deleted from the database. They come last: only they say which keys belong to a host, and step 2
//     needs these keys to find tombstones.
//
// Each step may be repeated. So after an error the caller calls [Eraser.Erase] again.
//
// # Record of an erasure
//
// The record has a digest of the key or host, and the time of the erasure. A pending notice is finalized after that
// time, so the database accepts its entry. [Eraser.Tend] deletes the record when no outbox can contain an entry from
// before the erasure.
package erase
