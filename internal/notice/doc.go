// Package notice holds the vocabulary of this service: the notice, its state,
// the attempts made, the ladder of delays, and what an attempt comes to.
//
// It does no I/O and imports nothing of this module: everything above it may
// speak these words.
package notice
