// Package consume processes the notices of a list or stream route and reports the results, so that failed notices are
// retried by their ladder, the list of delays between attempts.
//
// # Guarantees
//
// With ACK=report the service waits for the consumer's report, and no notice is lost. If the consumer dies, is
// partitioned or cannot report, the route's timeout passes without a report, and the notice is pushed again as the next
// attempt. Work can be done twice: when its consumer dies between the work and the report, or takes longer than the
// timeout. A command that exceeds the timeout is ended.
//
// Without ACK=report a notice counts as delivered when it is pushed. If a consumer dies after it has popped an entry
// from a list, that entry is lost. An entry of a stream stays pending in the group, and another consumer claims it
// after [Options].Idle. A report of failure makes the notice pending again.
//
// # Streams
//
// An entry is acknowledged to the group after its report. A crash between the two leaves a reported entry in the group.
// So for an entry that was claimed from another consumer, and for every entry with ACK=report, the consumer first asks
// the API whether the attempt is still pending, and skips the entry if not. During the work the consumer resets the
// entry's idle time, so that only entries of dead consumers are claimed.
//
// # Connections
//
// Each wait for Redis is bounded by seconds, so that a silently closed connection is noticed. Errors are retried with a
// pause that doubles up to two seconds. If a restarted Redis has lost the group, the consumer creates it again from the
// stream's beginning.
package consume
