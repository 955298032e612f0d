// Package queue hands due notices to Redis lists and streams.
//
// The handler does not push: it says what is to be pushed, and the settle does
// it, in the same script that ends the claim. So an entry is there exactly if
// its notice is settled. In a cluster the list may lie in another slot than the
// notice; then the push comes first and the settle after it, and a crash
// between the two doubles the entry, never loses it.
//
// What an entry holds is written and read here, in entry.go: [Envelope] and
// [Fields] make a list's and a stream's, [ParseEnvelope] and [ParseFields] read
// them back for package consume.
package queue
