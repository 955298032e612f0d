// Package harness runs the cases: which load a peer gets, what is counted, and
// in which order the cells of the table are measured.
//
// A cell is one peer in one case, once. Each cell runs in a process of its own
// with fresh servers, so that no peer inherits another's memory, connections
// or goroutines, and a peer that hangs costs its own cell and nothing else.
// Repeats alternate: all peers once, then all peers again in rotated order, so
// that a slow minute of the machine meets everybody.
//
// What is counted is the same for all: the harness knows each job's due time,
// takes the time when its handler starts, and counts jobs that started early,
// twice or never. Speed with a wrong answer is no result.
package harness
