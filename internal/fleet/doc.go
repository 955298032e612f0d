// Package fleet knows which instances live, which are gone, which of them is
// preferred for a piece of work, and which part of a limit is this one's.
//
// # Life of an instance
//
//	          first sign            no sign for 3 beats
//	joining ─────────────▶ living ─────────────────────▶ silent ──▶ gone
//	                        │  ▲        next sign           │
//	             Retire     │  └────────────────────────────┘
//	                        ▼
//	                     leaving ─────────────────────▶ left
//	                               context of Run ends
//
// Each process has an id of its own: the label (NOTIFIER_INSTANCE) may be the
// same for all. A sign of life is one script call, once a beat: a second, or a
// third of a TAKEOVER below three seconds. It notes the time by Redis's clock
// and tells who else has given a sign and who has ended. So every instance
// hears of every other without a leader, and nothing waits for an election.
// Messages on the fleet's channel ("joined", "left", "gone") only bring the
// next beat forward; all of them may be lost.
//
// A living instance is preferred for its part of the work and holds its part of
// the limits. A leaving one is preferred for nothing, but keeps its part of
// limits on calls under way until its own calls have ended. A silent one has
// neither. That is no verdict: it may be stopped, slow, or cut off.
//
// # Gone
//
// What a silent instance has claimed is safe only once its process is surely
// dead, and silence cannot tell that. The kernel can: it closes the connections
// of a dead process and keeps those of a stopped one. So each instance
// subscribes to a channel of its own, at the node that keeps its sign of life,
// and another is gone if all of this holds:
//
//   - it has been silent for its own TAKEOVER, by Redis's clock, and the
//     observer has one itself;
//   - it had its subscription at its last sign (otherwise nothing can be learnt
//     from there being none, and its leases rule);
//   - nobody is subscribed to its channel any more (PUBSUB NUMSUB, asked by the
//     same scripts that keep the signs of life, hence at the same node);
//   - the observer has reached that same node for just as long: every beat
//     succeeded, no two of them lay more than two beats apart by Redis's clock,
//     and the observer's own subscription was there at each of them and not made
//     anew.
//
// The last point is the trust window. After a failover, a restart or a pause of
// Redis everybody is silent and nobody is subscribed; the observer's own window
// begins anew with it, and the others have a whole TAKEOVER to come back. Any
// one observer with a whole window suffices. Its verdict is a mark in Redis,
// written by a script that looks once more; from then on all know.
//
// An instance is counted out wrongly only if its connections were closed and it
// could not come back for TAKEOVER. What it has in flight may then be handled
// twice. Where PUBSUB NUMSUB or the subscription is forbidden, and with
// TAKEOVER=lease, nobody is ever gone and claims come back with their leases.
// Each instance tells its own TAKEOVER, which is the one that others wait; of
// whom it is not known, or who has none, nobody is counted out.
//
// # Coming back
//
// An instance that finds itself counted out takes a new id. Claims are made
// under an id ([Fleet.ID] begins each claim's token), and [Fleet.MayStart]
// refuses those of another id. Between being counted out and finding out lies
// at most the time since the last sign of life: MayStart refuses too once that
// is a TAKEOVER ago by the process's own clock, since from then on it may have
// been counted out. The same rule, and not the mark alone, holds where the
// fleet's keys were lost with Redis's data.
//
// # What is not promised
//
// Two instances may hold different views for a beat. Then two may be preferred
// for one notice, or nobody, and limits may be exceeded by what one instance
// holds: the claim decides who works, and whatever the preferred one leaves is
// claimed by others a grace later. An instance that sees this counts the other one as
// absent, and does its part at once, for a second at a time: see [Assignment]. Should two do so, the claim decides
// again. Calls under way when a part of a limit gets smaller go on, and so do those
// of an instance that is cut off, with the part that it had. Nothing here is a lock.
//
// While nothing is known (before the first sign, or when signs have failed for
// three beats, or the keys hold something else) every instance is preferred for
// everything. Limits stay as they were last shared out, so that an outage of
// the fleet's node exceeds none; before the first sign they are whole.
//
// Instances of versions before the fleet do not appear. They are not waited
// for, and take limits whole.
//
// # Where it is kept, and what it costs
//
// Three small keys and two channels ([keys.Space.FleetSigns] and its
// neighbours) share one hash tag. In a cluster all of them belong to one master,
// to which the subscription goes as well: plain pub/sub, because the script asks
// its own node for its own subscribers, so that sharded pub/sub would bring
// nothing and need Redis 7. When the slot moves the subscription does not; the
// next sign of life finds nobody subscribed at its node, and the subscription is
// made anew there. The same finds a failover under Sentinel.
//
// A hash of signs that everybody reads was chosen over signs sent by pub/sub
// alone: that is one command a beat too, but says nothing of who was silent to
// whoever has just come, and nothing by Redis's clock.
//
// Eight idle instances send eight commands a second. One costs Redis some
// 70 µs, the instance 0.05 % of a core. A kill -9 is known 2 to 3 s later at a
// TAKEOVER of 3 s: the last sign was up to a beat before it. Whether this
// instance is preferred for a key takes 25 ns among eight.
package fleet
