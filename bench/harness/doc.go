// Package harness runs the benchmark: it puts the same load on each measured system, a peer, and measures all peers in
// the same way.
//
// A cell is one measurement of one peer in one case. Each cell runs in a separate process with fresh servers, so cells
// do not affect each other. Repeats alternate: all peers are measured once, and then again in rotated order. So a slow
// minute of the machine affects all peers alike.
//
// The harness knows the due time of each job and records when its handler starts. It counts jobs that start early,
// twice or never. A run with early or missing jobs is not a valid result.
package harness
