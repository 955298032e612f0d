// Package fleet tracks which instances of the service are alive, and divides the work and the limits
// among them. There is no leader: each instance publishes heartbeats in Redis, reads those of the
// others, and decides by itself.
//
//	           first heartbeat          3 heartbeats missed      closed connections
//	joining ───────────────────▶ alive ─────────────────▶ unresponsive ──────────▶ dead
//	                              │  ▲   next heartbeat        │
//	            Retire            │  └─────────────────────────┘
//	                              ▼
//	                           leaving ──────────────────▶ left
//	                                     Run's context ends
//
//	state         new work  limits                               claims
//	alive         yes       a part                               its own
//	leaving       no        its part of concurrency, until its   its own
//	                        last attempt has ended
//	unresponsive  no        none                                 its own: it may be paused, slow or cut off
//	dead          no        none                                 reclaimed by others
//
// # Guarantees
//
// Nothing here is a lock. Only the claim in Redis decides which instance delivers a notice, so a
// wrong view of the fleet costs time and never loses a notice.
//
// The views of two instances may differ for one heartbeat. In that time, two instances or none may
// be preferred for a notice, and limits may be exceeded by the part of one instance. If the
// preferred instance does not claim a notice, another one claims it one grace (50 ms) later. For a
// second, notices of the first instance are then claimed by others at once; see [Assignment].
// Attempts that have started continue when their limit shrinks, also at an instance that is cut
// off.
//
// An instance is declared dead by mistake only if its connections were closed and it could not
// reconnect within its TAKEOVER. The notices that it has in flight may then be delivered twice.
//
// # Heartbeats
//
// An instance publishes a heartbeat every second, or three times per TAKEOVER if that is shorter
// than three seconds. One script call stores it with the time of Redis's clock, and returns the
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
// each instance subscribes to a channel of its own id, at the Redis node that stores its heartbeats. An
// observer declares another instance dead if all of this holds:
//
//   - The instance has published no heartbeat for its TAKEOVER, by Redis's clock, and the observer
//     has a TAKEOVER too.
//   - Its last heartbeat found its subscription. Otherwise a missing subscription proves nothing.
//   - Its channel has no subscriber now. The heartbeat script asks with PUBSUB NUMSUB.
//   - During that TAKEOVER, the observer has reached the node without interruption. All its
//     heartbeats succeeded, at most two intervals apart. Each found the observer's own
//     subscription, which was not opened again.
//
// The last condition covers a failover, restart or pause of Redis, after which no instance is
// subscribed. Every observer's TAKEOVER then begins again, and the other instances have that time
// to reconnect. One observer is enough. It runs a script that checks the conditions again and
// writes a mark, which all instances read with their next heartbeat.
//
// With TAKEOVER=lease, or if PUBSUB NUMSUB or the subscription is forbidden, no instance is declared
// dead, and claims are reclaimed when their leases end. Each instance publishes its TAKEOVER, and
// observers use that. An instance whose TAKEOVER is unknown is not declared dead.
//
// # Returning
//
// An instance that finds itself declared dead takes a new id. Claims are made under an id
// ([Fleet.ID] begins each claim's token), and [Fleet.MayStart] refuses claims of another id. Other
// instances may have declared it dead before it reads the mark. So MayStart also refuses once the
// last heartbeat is a TAKEOVER ago by the process's own clock. If Redis has lost the fleet's keys,
// that clock is the only protection.
//
// # Unknown fleet
//
// Before the first heartbeat, after three failed ones, and if the keys contain foreign data, every
// instance is preferred for all work. Limits stay as they were last divided, so no limit is
// exceeded while the node that stores heartbeats is down. Before the first heartbeat, each instance
// uses the whole of each limit.
//
// Versions of the service that are older than this package publish no heartbeat. Other instances do
// not wait for them, and they use the whole of each limit.
//
// # Storage and cost
//
// Three small keys and two channels ([keys.Space.FleetSigns] and its neighbours) share one hash
// tag. So in a cluster one master has them all, and the subscription is opened at that master. The
// slot may move, or Sentinel may switch to another master. The next heartbeat then finds no
// subscription at its node, and a new one is opened. It is plain pub/sub, because the script asks
// its own node; sharded pub/sub would need Redis 7 and bring nothing.
//
// Heartbeats are stored in a hash and not only published, so that a new instance sees which ones
// are missing, with times of Redis's clock.
//
// Eight idle instances send eight commands a second. A command costs Redis some 70 µs, and the
// instance 0.05 % of a core. A kill -9 is detected 2 to 3 s later with a TAKEOVER of 3 s, since the
// last heartbeat was up to one interval before. Deciding whether this instance is preferred for a
// key takes 25 ns with eight instances.
package fleet
