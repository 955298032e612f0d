// Package tracing shows single attempts to developers: as spans, and as copies of what was sent. It parses and formats W3C
// trace contexts (the header traceparent), and defines the attributes of spans. Package telemetry creates the tracer and
// exports its spans.
//
// Packages that create spans take a trace.Tracer in their options. A nil tracer means that tracing is off and no span is
// created.
//
// # Taps
//
// A tap streams copies of delivery attempts to a developer, for example to debug a receiver.
//
//	handler → Publisher → Redis, pub/sub → Hub → Tap → GET /v1/tap
//
// Each instance has a [Publisher], which publishes copies of its attempts. Its [Hub] receives the copies of all
// instances and passes them to the taps that are open at this instance.
//
// # How instances find taps
//
// The set of open taps is stored in Redis. The instance that serves a tap adds it to the set, and renews it. Each
// instance reads the set with each heartbeat, and publishes copies of attempts on notices whose keys match a tap. Each
// instance also publishes that it has seen a new tap. The tap then reports from how many instances it receives copies.
//
// # Limits of taps
//
// An attempt does not wait until its copy is published: [Publisher.Publish] adds the copy to a bounded queue after the
// handler has returned. In any second, all instances together take up to [Copies] copies and [Bytes] bytes, each
// instance an equal share, which is divided equally among the clients with open taps. Until the next heartbeat, an
// instance that has just started is not counted. Further copies are dropped and counted. Copies are lost while a
// connection to Redis is down.
//
// # Content of a copy
//
// A copy of a call has the headers of the notice, without those that have secret names, and none of the route's
// headers. Dots replace secrets in the url. The body is cut at [MaxBody].
//
// A copy does not have the signature of the attempt. If the route signs with the scheme standard, [View] usually signs
// the copy with a key that is only valid for one stream, so a developer can test the verification. It does not sign cut
// copies, or any masked copy.
//
// If there are rules that mask content (package mask), a copy is masked before it is published, so Redis and other programs on the
// channel get the masked copy. An instance with rules also masks copies of an instance that has none yet.
package tracing
