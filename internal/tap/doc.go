// Package tap streams copies of attempts to developers. A tap is one such stream.
//
//	handler → Publisher → Redis, pub/sub → Hub → Tap → GET /v1/tap
//
// An open tap is a member of a zset in Redis, which its instance renews. Each instance reads the
// zset with its heartbeat, and publishes copies of attempts on matching keys only while there are
// members. Without a tap an attempt costs one atomic load. When an instance has read a new tap, it
// publishes that. So the tap's stream can report when it receives the copies of all instances.
//
// A copy never delays an attempt: [Publisher.Publish] puts it in a queue of bounded size, after the
// handler has returned. The instances together publish at most [Copies] copies and [Bytes] bytes
// a second. Each instance may publish an equal part of both; further copies are dropped and counted.
//
// A copy has the notice's own headers and none of the route's. It lacks the parts that the history
// hides: the values of secret headers and the password of the url. A copy has no signature.
// [View] signs it with the key of one stream.
//
// Pub/sub keeps nothing: copies published while a connection to Redis is down are lost.
package tap
