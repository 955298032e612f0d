// Package notice holds the vocabulary of the service: the notice, its states, the attempts made, the ladder of delays, and the
// results of attempts.
//
// It also has the codec of the record, the JSON text of a notice in Redis (record.go), and the checks of a producer's input.
//
// It does no I/O and imports no other package of this module, so every package can use it.
package notice
