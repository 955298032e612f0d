// Package consume receives the notices of a list or stream route, runs a command for each, and reports the results to
// the service. Failed notices are retried by their ladder, the list of delays between attempts.
//
// # Guarantees
//
// With ACK=report, the service waits for the consumer's report, so no notice is lost. If the consumer dies, is
// partitioned or cannot report, the route's timeout passes, and the service pushes the notice again as the next
// attempt. Work may be done twice, if its consumer dies between the work and the report, or takes longer than the
// timeout. A command that exceeds the timeout is terminated.
//
// Without ACK=report, a notice counts as delivered when it is pushed. If a consumer dies after it has popped an entry
// from a list, that entry is lost. An entry of a stream stays pending in the consumer group, and another consumer
// claims it after [Options.Idle]. A report of failure makes the notice pending again.
//
// # Streams
//
// A consumer reports the result of an entry first, and then acknowledges the entry to the group. A crash between the
// two leaves a reported entry in the group. So a consumer may get an entry that was already processed. In two cases it
// first asks the API whether the attempt is still pending, and skips the entry if not: for an entry that it claimed
// from another consumer, and for every entry with ACK=report.
//
// While the command runs, the consumer resets the entry's idle time, so that only entries of dead consumers are
// claimed.
//
// # Connections
//
// Each blocking read from Redis takes at most some seconds, so that a silently closed connection is noticed. Errors are
// retried with a pause that doubles up to two seconds. If a restarted Redis has lost the group, the consumer creates it
// again from the stream's beginning.
package consume
