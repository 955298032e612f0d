// Package chaos runs several instances of the built program under continuous faults, and checks that no acknowledged
// notice is lost, early or duplicated. Redis runs standalone, under Sentinel, and as a cluster. The package has the
// build tag chaos and is run by `make chaos`.
//
// # Ledger
//
// The ledger decides whether a run passes. It consists of the producer's log of acknowledged calls and the receiver's
// log of requests and answers. It contains no data of the service.
//
// A run fails if a notice is
//   - lost: acknowledged, not cancelled, and neither answered with 200 nor a dead letter;
//   - early: sent before its due time by Redis's clock;
//   - sent after its cancellation was acknowledged;
//   - delivered twice without a cause: sent again after a 200, or the same attempt twice;
//   - sent with two different webhook-ids.
//
// # Duplicates
//
// Each fault declares whether it may cause duplicates. Such a fault explains a duplicate if it hit the instance of the
// first attempt while that attempt was in flight: from its request until half a second after its answer. The run lists
// each duplicate with its cause, and fails if one has no cause. It also counts the calls in flight at the start of
// each fault, for each instance.
//
// TestMutantThatDuplicatesFailsRun shows that a program that duplicates without a fault fails the run.
//
// # Modes
//
// In the mode safety, several faults are active at a time. After they end, all acknowledged notices must be delivered.
// In the mode liveness, one fault is active at a time. The time from its end until no due notice waits is measured and
// bounded.
//
// # Clocks
//
// Redis runs under Debian's faketime, whose offset changes during the run. Without faketime, or without the rights to
// mount a small file system, the run skips the faults that need them and reports so.
package chaos
