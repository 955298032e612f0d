// Package queue delivers due notices to Redis lists and streams, as entries that consumers read. A notice is a body to
// deliver at a due time.
//
// # Guarantees
//
// Outside a cluster, one script pushes the entry and settles the notice, which means to store the result. So neither
// happens without the other.
//
// In a cluster, the list may be in another slot than the notice, and one script cannot write both. Then the entry is
// pushed first, and the notice is settled afterwards. A crash between the two may duplicate the entry, but does not
// lose it. A push whose reply was lost is repeated with the same mark, so that it normally adds no second entry
// ([notice.Notice.PushMark]).
//
// # Format
//
// [Envelope] writes the entry of a list and [Fields] that of a stream. [ParseEnvelope] and [ParseFields] read them.
package queue
