// Package audit records who changed what and when. It records the calls of operators, made by the
// API or on the pages. It does not record the schedule calls of producers and the reports of
// consumers.
//
// Entries are stored in Redis, in two streams for each client: one for rare actions, such as
// sign-ins, pauses and erasures, and one for all other actions; see [Class]. A stream keeps its
// newest 2,000 entries. So no client displaces the entries of another, and no number of cancels
// displaces a sign-in. All clients that left the configuration share two streams.
//
// Equal calls of a client within a minute are one entry with a count. Calls are equal if all fields
// are equal; the details of failed calls may differ.
//
// The entry is written after the call's change and before the answer. If the entry cannot be
// written, the call still succeeds, and the log has the entry and a warning.
//
// An admin without a prefix reads all entries, any other client reads its own. Sessions of portal
// links read none.
package audit
