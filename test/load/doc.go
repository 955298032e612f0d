// Package load measures the built program under load: notices at a steady rate, besides a million pending ones, for
// minutes or hours. Then another route gets three times as many notices as its receiver can process. The package has
// the build tag load and is run by `make load`.
//
// TestPunctuality measures two instances at a steady rate, while one or the other is killed: `make punctuality`.
//
// Lateness is the arrival of a request at the receiver minus its due time. Memory and open files are read from the
// kernel, goroutines from the program's metric, and Redis's memory from INFO. The charts in docs/load have one point
// per second.
package load
