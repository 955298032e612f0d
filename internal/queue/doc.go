// Package queue delivers due notices to Redis lists and streams, as entries that consumers read.
//
// # Guarantees
//
// Outside a cluster, one script settles the notice and pushes its entry, so neither happens without the other.
//
// In a cluster, the list may be in another slot than the notice. Then the entry is pushed first, and the notice is
// settled afterwards. A crash between the two duplicates the entry but never loses it. A push whose reply was lost is
// repeated without adding a second entry ([notice.Notice.PushMark]).
//
// # Format
//
// [Envelope] writes the entry of a list and [Fields] that of a stream. [ParseEnvelope] and [ParseFields] read them.
package queue
