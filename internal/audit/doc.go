// Package audit records who changed what, and when. It records calls that operators make through the API or the
// dashboard. It does not record schedule calls of producers and reports of consumers.
//
// # Storage
//
// Entries are stored in Redis, in two streams for each client: one for rare actions, such as sign-ins, pauses and
// erasures, and one for all other actions (see [Class]). A stream keeps its newest 2,000 entries. So no client
// displaces the entries of another client, and frequent actions such as cancels do not displace rare ones. Clients that
// were removed from the configuration share two streams.
//
// If a client makes equal calls within a minute, they are one entry with a count. Calls are equal if all their fields
// are equal. Only the error details of failed calls may differ.
//
// # Failures
//
// An entry is written after the change and before the answer to the call. If the entry cannot be written, the call
// still succeeds, and a warning in the log has the entry.
//
// # Access
//
// An admin without a prefix reads all entries. Any other client reads only its own. Sessions of portal links read none.
package audit
