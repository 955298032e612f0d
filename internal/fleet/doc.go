// Package fleet knows which instances of the service are alive, and divides the work and the
// limits among them. There is no leader: each instance publishes heartbeats in Redis, reads
// those of the others, and decides by itself.
//
//	           first heartbeat          3 heartbeats missed      closed connections
//	joining ───────────────────▶ alive ─────────────────▶ unresponsive ──────────▶ dead
//	                              │  ▲   next heartbeat        │
//	            Retire            │  └─────────────────────────┘
//	                              ▼
//	                           leaving ──────────────────▶ left
//	                                     Run's context ends
//
// An alive instance is preferred for its part of the work and has its part of the limits. A
// leaving instance is preferred for nothing; it keeps its part of the limits on concurrency until
// its last attempt has ended. An unresponsive instance has neither, but keeps its claims: it may
// be paused, slow or cut off. The claims of a dead instance are reclaimed.
//
// # Guarantees
//
// Nothing here is a lock. Only the claim in Redis decides which instance delivers a notice, so a
// wrong view of the fleet costs time and never loses a notice.
//
// Views of two instances may differ for one heartbeat. During that time two instances or none may
// be preferred for a notice. A notice that its preferred instance does not claim is claimed by
// another instance one grace later, and that one then serves the inactive instance's part for a
// second at a time (see [Assignment]). Limits may be exceeded by the part of one instance. Attempts
// that have started continue when their limit shrinks, also at an instance that is cut off.
//
// An instance can be declared dead by mistake only if its connections were closed and it could not
// reconnect within its TAKEOVER. Notices that it has in flight may then be delivered twice.
//
// # Heartbeats
//
// An instance publishes a heartbeat every second, or three times per TAKEOVER if the TAKEOVER is
// below three seconds. One script call stores it with the time of Redis's clock and returns the
// roster: the heartbeats of all instances, and the instances that have ended. Messages on the
// fleet's channel ("joined", "left", "gone") only bring the next heartbeat forward, so a lost
// message costs at most one interval.
//
// Each process has a unique id. Its label (NOTIFIER_INSTANCE) may be shared.
//
// # Declaring an instance dead
//
// Missing heartbeats do not prove that a process is dead: it may only be paused. Closed connections
// do, because the kernel closes the sockets of a dead process and keeps those of a stopped one. So
// each instance subscribes to a dedicated channel, at the node that stores its heartbeats. An
// observer declares another instance dead if all of this holds:
//
//   - The instance has published no heartbeat for its TAKEOVER, by Redis's clock, and the observer
//     has a TAKEOVER too.
//   - Its last heartbeat found its subscription. Without one, a missing subscription proves nothing,
//     and its claims are reclaimed when their leases end.
//   - Its channel has no subscriber. The heartbeat scripts ask with PUBSUB NUMSUB, so the same node
//     answers.
//   - The observer has reached that node for just as long. Each of its heartbeats succeeded, no gap
//     between two of them was longer than two intervals, and each found the observer's subscription,
//     which was not renewed in between.
//
// The last point is the trust window. After a failover, a restart or a pause of Redis all instances
// are unresponsive and none is subscribed. The observer's window starts again at that moment, so the
// others have a whole TAKEOVER to reconnect. One observer with a whole window is enough. It sets a
// mark in Redis with a script that checks the conditions again, and all instances read the mark.
//
// If PUBSUB NUMSUB or the subscription is forbidden, or with TAKEOVER=lease, no instance is declared
// dead, and claims are reclaimed when their leases end. Each instance publishes its TAKEOVER, and
// observers wait that long. An instance whose TAKEOVER is unknown is not declared dead.
//
// # Returning
//
// An instance that finds itself declared dead takes a new id. Claims are made under an id
// ([Fleet.ID] begins each claim's token), and [Fleet.MayStart] refuses claims of another id. An
// instance may be dead to the others before it reads the mark. So MayStart also refuses once the
// last heartbeat is a TAKEOVER ago by the process's own clock. This rule alone protects where the
// fleet's keys were lost with Redis's data.
//
// # Unknown fleet
//
// Before the first heartbeat, after three failed heartbeats, and if the keys contain foreign data,
// every instance is preferred for all work. Limits stay as they were last divided, so an outage of
// the node that stores heartbeats exceeds none. Before the first heartbeat they are undivided.
//
// Instances of versions before the fleet publish no heartbeat. The others do not wait for them, and
// they use limits undivided.
//
// # Storage and cost
//
// Three small keys and two channels ([keys.Space.FleetSigns] and its neighbours) share one hash tag.
// In a cluster all of them belong to one master, and the subscription is opened there. It is plain
// pub/sub, because the script asks its own node for its own subscribers; sharded pub/sub would need
// Redis 7 and bring nothing. When the slot moves, the subscription stays behind. The next heartbeat
// finds no subscriber at its node, and the subscription is opened again there. A failover under
// Sentinel is found in the same way.
//
// Heartbeats are stored in a hash that all instances read, and not only sent by pub/sub. Pub/sub
// costs one command per interval too, but shows a new instance no missing heartbeats, and has no
// times of Redis's clock.
//
// Eight idle instances send eight commands a second. One costs Redis some 70 µs, and the instance
// 0.05 % of a core. A kill -9 is detected 2 to 3 s later with a TAKEOVER of 3 s, since the last
// heartbeat was up to one interval before. Deciding whether this instance is preferred for a key
// takes 25 ns with eight instances.
package fleet
