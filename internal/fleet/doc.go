// Package fleet tracks which instances of the service are alive, and divides the work and the limits among them. An
// instance is one process. There is no leader: each instance publishes heartbeats in Redis, reads those of the others,
// and decides by itself.
//
//	           first heartbeat          3 heartbeats missed      closed connections
//	joining ───────────────────▶ alive ─────────────────▶ unresponsive ──────────▶ dead
//	                              │  ▲   next heartbeat        │
//	            Retire            │  └─────────────────────────┘
//	                              ▼
//	                           leaving ──────────────────▶ left
//	                                     Run's context ends
//
//	state         new work  part of limits            its claims
//	alive         yes       yes                       stay valid
//	leaving       no        for running attempts      stay valid
//	unresponsive  no        no                        stay valid: it may only be paused, slow or cut off
//	dead          no        no                        are reclaimed by others
//
// # Guarantees
//
// To deliver a notice, an instance must claim it in Redis, and only one claim succeeds. So a wrong view of the fleet
// may delay a notice, but never loses one.
//
// For each notice, one instance is preferred: it claims the notice when that is due. If it does not, another one
// usually does so a short time later, the grace (50 ms by default): see [Assignment]. The views of two instances may
// differ, usually for one heartbeat. In that time, two instances or none may be preferred for a notice, and limits may
// be exceeded.
//
// # Heartbeats
//
// An instance publishes a heartbeat about every second, or more often if its takeover time is short. The takeover time
// (NOTIFIER_TAKEOVER) is how long an instance must be without a heartbeat before it can be declared dead. Redis stores
// the time of each heartbeat by its own clock. The reply contains the heartbeats of the others.
//
// # Declaring an instance dead
//
// Missing heartbeats do not prove that a process is dead: it may only be paused. Closed connections do, because the
// kernel closes the sockets of a dead process and keeps those of a stopped one. So each instance keeps a subscription
// to a channel of its own, and the others ask Redis whether it is open. An observer, which is any other instance,
// declares an instance dead if all of this holds:
//
//   - The instance has published no heartbeat for its takeover time.
//   - Its subscription was open at its last heartbeat, and is closed now.
//   - During the same time, the observer's heartbeats have succeeded, and its own subscription has stayed open.
//     Otherwise Redis may have restarted, and other instances may need time to reconnect.
//
// If the network has cut off an instance, it may be declared dead while it is alive. The notices that it has in flight
// may then be delivered twice.
//
// An instance with NOTIFIER_TAKEOVER=lease is not declared dead, and declares no other dead. Its claims are reclaimed
// when their leases, the time limits of claims, expire. The same holds for all instances if Redis forbids the
// subscription.
//
// # Returning
//
// An instance that was declared dead reads that with its next heartbeat, and takes a new id. It starts no attempt for
// claims of the old one ([Fleet.MayStart]). It may be declared dead without knowing it yet. So once its last heartbeat
// is older than the takeover time, it starts no attempt for claims of its present id either.
//
// # Unknown fleet
//
// An instance does not know the others before its first heartbeat, or after heartbeats have failed for three intervals.
// It is then preferred for all work. Its parts of limits stay as they were last divided. Before the first heartbeat, it
// uses the whole of each limit.
//
// # Figures
//
// The package also has the figures that an instance gives of itself in heartbeats, metrics and pages: [Counters] of its
// work, [Gauges], which are values of a moment, and its [Readiness].
package fleet
