// Package queue delivers due notices to Redis lists and streams.
//
// Outside a cluster the handler only returns the entry. The script that settles the notice also pushes the entry, so an entry exists
// exactly if its notice is settled.
//
// In a cluster the list may be in another slot than the notice. Then the handler pushes the entry, and the settle follows. A crash between
// the two duplicates the entry and never loses it. Each push has a mark ([notice.Notice.PushMark]), which Redis stores. A push whose
// answer was lost is repeated with the same mark, and adds no second entry.
//
// entry.go has the format of the entries: [Envelope] and [Fields] write the entries of lists and streams, and [ParseEnvelope] and
// [ParseFields] read them for package consume.
package queue
