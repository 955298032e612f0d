// Package tap streams copies of delivery attempts to developers. A tap is one such stream.
//
//	handler → Publisher → Redis, pub/sub → Hub → Tap → GET /v1/tap
//
// # How instances find taps
//
// An open tap is a member of a sorted set in Redis, which its instance renews. Each instance reads the set with its
// heartbeat. While the set has members, the instance publishes copies of attempts on matching keys. Without a tap an
// attempt costs one atomic load.
//
// An instance announces that it has read a new tap. So the stream can report when it receives the copies of all
// instances.
//
// # Limits
//
// A copy never delays an attempt: [Publisher.Publish] adds it to a bounded queue after the handler has returned. All
// instances together publish at most [Copies] copies and [Bytes] bytes a second, each instance an equal share. Further
// copies are dropped and counted. Copies are lost while a connection to Redis is down.
//
// # Content of a copy
//
// A copy has the notice's own headers, without the values of secret ones, and none of the route's headers. The
// password of the url is removed. A copy has no signature; [View] signs it with a key that is only valid for one
// stream.
package tap
