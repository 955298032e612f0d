// Package notice defines types that many packages share. A [Notice] is a message with a time at which it is to be
// delivered, by an HTTP callback or through a Redis list or stream. Other types are its states, its attempts and their
// results, and the ladder, which is the list of delays between attempts.
//
// The package also encodes and decodes records, the JSON form of notices in Redis, and validates the fields that
// producers send. It does no I/O.
//
// [ParseTime] reads times as people write them, in a time zone, such as 14:00, today 14:00, yesterday, 14:00+08:00,
// 2026-11-22 09:30, or RFC 3339. A time of day without a date means its last or its next occurrence; the caller chooses
// which. If a change of daylight saving time skips or repeats a time, ParseTime returns an error. A time of day with an
// offset, as in 02:30+02:00, is never ambiguous.
package notice
