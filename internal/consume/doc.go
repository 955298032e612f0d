// Package consume takes notices from a list or stream route, has each worked
// on, and reports what came of it, so that the notice's ladder goes on.
//
// # What holds
//
// On a route with ACK=report nothing is lost, whatever dies: an entry whose
// consumer dies, is cut off or cannot report is not reported within the route's
// timeout, and comes again as the next attempt. So work may be done twice, if
// its consumer dies between doing and reporting, or takes longer than the
// timeout; a command that runs longer is ended.
//
// On a list route without it the push was the delivery: an entry that was popped
// by a consumer that dies is gone. On a stream route without it the entry stays
// pending in the group and another consumer takes it over when nobody has worked
// on it for a while; a report of failure opens the notice again.
//
// # Streams
//
// An entry is acknowledged to the group after the report, so a crash between
// them leaves an entry that was reported. Whoever takes such an entry over, or
// takes one whose report is awaited, asks the API first whether its attempt still
// stands, and passes over it if not: it may have waited in the queue until the
// service gave it up. While an
// entry is worked on its idle time is set back, so that only those of dead
// consumers are taken over.
//
// # Connections
//
// Every wait for Redis is bounded by seconds, so a connection that was cut
// without a word is noticed; errors are waited out with a pause that doubles up to
// two seconds. A group that a restarted Redis has forgotten is made again, from
// the stream's beginning.
package consume
