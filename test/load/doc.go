// Package load runs the built program among a million pending notices at a steady
// rate, for minutes or hours, and then with three times what one route's
// receiver takes. It is built with the tag load and run by `make load`.
//
// Lateness is the receiver's: when a request arrived, less its due time. Memory
// and descriptors are the kernel's, goroutines the program's own metric, Redis's
// memory what INFO says. Each second gives a point of the charts in docs/load.
package load
