// Package chaos runs the built program, several instances of it, on a real Redis
// alone, under Sentinel and as a cluster, lets things go wrong all the time, and
// compares what a receiver was sent with what producers were promised. It is
// built with the tag chaos and run by `make chaos`.
//
// # What decides
//
// The ledger: the producer's log of what a call acknowledged and the receiver's
// log of what arrived and how it was answered, never what the service says of
// itself. Nothing may be lost (acknowledged, not cancelled, and neither answered
// with 200 nor a dead letter), early (before its due time by Redis's clock), sent
// after its cancellation was acknowledged, or delivered twice (sent again after a 200,
// or the same attempt twice) without a cause. All arrivals of a notice carry one
// webhook-id.
//
// # Duplicates
//
// Each fault declares whether it may duplicate. A fault explains a duplicate only if it
// may, if it hit the instance that made the first attempt, and if that attempt was in
// flight while the fault lasted: from its request until half a second after its answer,
// by when it is settled. Each duplicate is listed with its cause; one without a cause
// fails the run. The calls in flight at the instant of a fault are counted for each fault
// and instance. TestMutantThatDuplicatesFailsRun shows that a program that duplicates
// without a fault fails the run.
//
// # Modes
//
// safety: faults without end, several at a time; then they end, and everything
// that was promised must have come. liveness: one fault at a time, and after each
// the time until nothing that is due waits any more, which is bounded.
//
// Redis runs under Debian's faketime, whose offset changes while it runs, with libc
// preloaded behind it: faketime and jemalloc call each other before either is
// ready. Where faketime is missing, or a small file system cannot be mounted,
// the faults that need them are left out, and the result says so.
package chaos
