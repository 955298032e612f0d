// Package queue delivers due notices to Redis lists and streams, as entries that consumers read. A notice is a body to
// deliver at a due time.
//
// # Guarantees
//
// Outside a cluster, one script pushes the entry and settles the notice, which means to store the result. So neither
// happens without the other.
//
// In a cluster, the list may be in another slot than the notice, and one script cannot write both. Then the entry is
// pushed first, and the notice is settled afterwards. A crash between the two may duplicate the entry, but does not
// lose it. A push whose reply was lost is repeated with the same mark, so that it normally adds no second entry
// ([notice.Notice.PushMark]).
//
// # Format
//
// [Envelope] writes the entry of a list and [Fields] that of a stream. [ParseEnvelope] and [ParseFields] read them.
//
// # Consumers
//
// A [Consumer] receives the notices of a route that pushes them to a Redis list or stream. It runs a command for
// each notice, and reports the result to the service through the API. The service retries failed notices after the
// delays that are configured for the route.
//
// # Guarantees of a consumer
//
// A route with the setting ACK=report loses no notice, because the service waits for the consumer's report. If no
// report arrives before the route's timeout, the attempt has failed, and the service retries it. So a command may run
// twice for a notice: the consumer may die before it has reported, or the report may be late. A command is terminated
// after nine tenths of the timeout by default.
//
// Without ACK=report, a notice counts as delivered when it is pushed. The consumer reports only failures and deferrals,
// after which the notice is retried. If a consumer dies,
//   - an entry that it has popped from a list is lost;
//   - an entry that it has read from a stream is kept by Redis, and another consumer claims it after [ConsumerOptions.Idle],
//     unless the stream's length limit has removed it.
//
// # Streams
//
// The consumers of a stream form a consumer group, for which Redis remembers the unfinished entries. A consumer first
// reports the result of an entry, and then acknowledges the entry to the group. After a crash between the two, another
// consumer may get the entry although it was already processed. Therefore a consumer asks the API whether the attempt
// is still pending, and skips the entry if not. With ACK=report it asks for all entries, otherwise only for those that
// it claimed from another consumer.
//
// While the command runs, the consumer tells the group that it still works on the entry. So other consumers do not
// claim it, unless the consumer is paused or cut off from Redis.
//
// # Sealed entries
//
// A sealed entry is opened by POST /v1/open before the command runs. If the service cannot open the entry, it is deferred. If the entry
// never opens, because its subject was forgotten or the text was changed, the notice is dead.
//
// # Connections
//
// Each blocking read from Redis takes at most two seconds ([ConsumerOptions.Block]), so that a silently closed connection is
// noticed. After an error the consumer retries, with a pause that doubles up to two seconds. If a restarted Redis has
// lost the group, the consumer creates the group again from the stream's beginning.
package queue
