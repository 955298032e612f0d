// Package chaos runs several instances of the built program under continuous faults, and checks that no acknowledged
// notice is lost, early or duplicated. Redis runs standalone, under Sentinel, and as a cluster. The package has the
// build tag chaos and is run by `make chaos`.
//
// # Ledger
//
// The ledger, the tests' own record, decides whether a run passes. It consists of the producer's log of acknowledged
// calls and the receiver's log of requests and answers. Only the dead letters are read from the service.
//
// A run fails if a notice is
//   - lost: acknowledged, not cancelled, and neither answered with 200 nor a dead letter;
//   - early: sent before its due time by Redis's clock;
//   - sent after its cancellation was acknowledged;
//   - sent after its expiry (one in ten has one) although no fault delayed the attempt, or dead as expired before it;
//   - delivered twice without a cause: sent again after a 200, or the same attempt twice;
//   - sent with two different webhook-ids.
//
// # Duplicates
//
// Each fault declares whether it may cause duplicates. Such a fault explains a duplicate if it hit the instance of the
// first attempt, and that attempt was in flight during the fault or up to a few seconds after its end. An attempt is in
// flight from its request until half a second after its answer. The run lists each duplicate with its cause, and fails
// if one has no cause. It also counts the calls in flight when a fault strikes, for each instance.
//
// TestMutantThatDuplicatesFailsRun shows that a program that duplicates without a fault fails the run.
//
// # Modes
//
// In the mode safety, several faults are active at a time. After their end, all acknowledged notices must be delivered.
// In the mode liveness, one fault is active at a time. The time from its end until no due notice waits is measured and
// has a bound. In the mode sequences, the notices of each sequence must be delivered in order. An attempt that starts
// too early fails the run, unless a fault explains it.
//
// # Clocks
//
// A standalone Redis runs under Debian's faketime, which gives a process another time. Its offset changes during the
// run, as if a clock jumped. Without faketime, or without the rights to mount a small file system, the run skips the
// faults that need them and reports so.
package chaos
