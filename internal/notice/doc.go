// Package notice defines types that many packages share. A [Notice] is a message with a time at which it is to be
// delivered, by an HTTP callback or through a Redis list or stream. Other types are its states, its attempts and their
// results, and the ladder, which is the list of delays between attempts.
//
// The package also encodes and decodes records, the JSON form of notices in Redis, and validates the fields that
// producers send. It does no I/O.
package notice
