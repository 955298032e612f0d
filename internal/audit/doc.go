// Package audit records who changed what, and when. It records the calls that operators make through the API or the
// dashboard, but not schedule calls of producers and reports of consumers.
//
// # Storage
//
// Entries are stored in Redis. Each client has two streams: one for rare actions, such as sign-ins, pauses and
// erasures, and one for all other actions (see [Class]). A stream keeps its newest 2,000 entries. So no client
// displaces the entries of another client, and frequent actions do not displace rare ones. Clients that were removed
// from the configuration share two streams.
//
// Equal calls of a client within a minute are one entry with a count. Calls are equal if all their fields are equal,
// except for the error details of failed calls.
//
// # Failures
//
// An entry is written after the change and before the answer to the call. If the entry cannot be written, the call
// still succeeds, and a warning in the log has the entry.
//
// # Access
//
// An admin without a prefix reads all entries. Any other client reads only its own. Sessions of portal links read
// none.
package audit
