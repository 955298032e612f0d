// Package harness runs the cases of the benchmark. It defines the load of a peer, the counted
// figures, and the order of the measurements.
//
// A cell is one measurement of one peer in one case. Each cell runs in a separate process with
// fresh servers. So no peer inherits another's memory, connections or goroutines, and a peer
// that hangs spoils only its own cell. Repeats alternate: all peers once, then all peers again
// in rotated order, so that a slow minute of the machine affects all peers alike.
//
// The harness counts alike for all peers. It knows each job's due time, records the start of
// its handler, and counts jobs that started early, twice or never. A fast run with lost or
// early jobs is no result.
package harness
