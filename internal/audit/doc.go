// Package audit is the record of who changed what, when: the calls of operators,
// by the API or the pages, and not what producers and consumers do all day, which
// is schedules and reports.
//
// Entries are kept in Redis, in two streams a client of 2,000 entries each: one for
// actions that are rare, such as sign-ins, pauses and erasures, and one for all others;
// see [Class]. So no client pushes entries of another out, and no number of cancels
// pushes out who signed in. Clients that left the configuration share two streams. Calls
// of a client that are the same in all fields within a minute are one entry with a
// count; of calls that failed, the detail may differ.
//
// An entry is written after the call that it is about, and before the call is answered. A
// call does not fail because its entry cannot be written: the log has the entry, and a
// warning beside it.
//
// An admin without a prefix reads all entries, any other client its own. Sessions of
// links read none.
package audit
