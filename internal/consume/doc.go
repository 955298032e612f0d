// Package consume receives the notices of a list or stream route, runs a command for each, and reports the results to
// the service. Failed notices are retried after the delays of the route.
//
// # Guarantees
//
// With ACK=report, no notice is lost, because the service waits for the consumer's report. If no report arrives before
// the route's timeout, the service pushes the notice again as the next attempt. So work may be done twice: its
// consumer may die before the report, or take longer than the timeout. A command that exceeds the timeout is
// terminated.
//
// Without ACK=report, a notice counts as delivered when it is pushed. A consumer that dies after it has popped an
// entry from a list loses that entry. An entry of a stream is not lost: it stays pending in the consumer group, and
// another consumer claims it after [Options.Idle]. A report of failure makes the notice pending again.
//
// # Streams
//
// A consumer first reports the result of an entry, and then acknowledges the entry to the group. A crash between the
// two leaves a reported entry in the group, so a consumer may get an entry that was already processed. Therefore it
// asks the API whether the attempt is still pending, and skips the entry if not. It asks for every entry that it
// claimed from another consumer and, with ACK=report, for all entries.
//
// While the command runs, the consumer resets the entry's idle time, so that only entries of dead consumers are
// claimed.
//
// # Connections
//
// Each blocking read from Redis takes at most some seconds, so that a silently closed connection is noticed. Errors
// are retried with a pause that doubles up to two seconds. If a restarted Redis has lost the group, the consumer
// creates it again from the stream's beginning.
package consume
