// Package queue delivers due notices to Redis lists and streams, as entries that consumers read.
//
// # Guarantees
//
// Outside a cluster, an entry exists exactly if its notice is settled. The handler only returns the
// entry, and the script that settles the notice also pushes the entry.
//
// In a cluster, the list may be in another slot than the notice. Then the handler pushes the entry
// first, and the settle follows. A crash between the two duplicates the entry but never loses it.
// Each push has a mark ([notice.Notice.PushMark]), which Redis stores. If only the reply to the
// push was lost, the push is repeated with the same mark and adds no second entry.
//
// # Format
//
// [Envelope] writes the entry of a list and [Fields] that of a stream. [ParseEnvelope] and
// [ParseFields] read them, for package consume.
package queue
