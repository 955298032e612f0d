// Package harness runs the benchmark of delay queues: it puts the same load on each measured system, called a peer, and
// measures all peers in the same way.
//
// A cell is one measurement of one peer in one case, such as a burst of jobs. Each cell runs in a separate process with
// fresh servers, so cells do not affect each other. Repeats of a case alternate: all its peers are measured once, and
// then again in rotated order. So a slow minute of the machine rarely affects all repeats of one peer.
//
// The harness knows the due time of each job and records when its handler starts. It counts jobs that start early,
// twice or never. Outside the crash case, a result with early or missing jobs is not valid.
package harness
