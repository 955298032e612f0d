// Package audit records which client changed what, and when. It records calls of clients through the API or the
// dashboard, such as a cancellation or a sign-in. It does not record schedule calls, the reports of consumers, and
// usually calls that changed nothing. Of calls that only read, it records those that show the content of sealed notices.
//
// # Storage
//
// Entries are stored in Redis. Each client has two streams: one for rare actions, such as sign-ins, pauses and
// erasures, and one for all other actions (see [Class]). A stream keeps its newest 2,000 entries. So no client
// displaces the entries of another client, and frequent actions do not displace rare ones. But clients that were
// removed from the configuration share two streams.
//
// Equal calls of a client within a minute of the first are one entry with a count. Calls are equal if all their fields
// are equal, except for the error details of failed calls.
//
// # Settings
//
// A hash has digests of the settings of each route. An instance that starts with other settings records them, and adds an entry with
// the digests before and after and the names of the settings that differ: who deployed what. Of several instances that start with
// the same settings, one adds the entry. The record shows no setting.
//
// # Failures
//
// An entry is written after the change and before the answer to the call. If the entry cannot be written, the call
// still succeeds, and a warning in the log has the entry.
//
// # Access
//
// A client with the role admin whose keys are not limited to a prefix reads all entries. Any other client reads only
// its own. A visitor who came to the dashboard by a portal link reads none.
package audit
