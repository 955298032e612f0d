// Package load measures the built program with a million pending notices at a steady rate,
// for minutes or hours. Then it overloads one route with three times the rate of its receiver.
// The package has the build tag load and is run by `make load`.
//
// Lateness is measured at the receiver: the arrival of a request minus its due time. Memory
// and descriptors are read from the kernel, goroutines from the program's metric, and
// Redis's memory from INFO. Each second adds a point to the charts in docs/load.
package load
