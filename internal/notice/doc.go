// Package notice defines the types that all packages share: the notice, its states, its attempts and their results,
// and the ladder, which is the list of delays between attempts.
//
// It also encodes and decodes records, the JSON form of notices in Redis, and validates the fields that producers
// send. It does no I/O.
package notice
