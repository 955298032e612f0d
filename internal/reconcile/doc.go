// Package reconcile makes Redis send the expired events of due notices (delayed callbacks) on time, and finds due
// notices whose event was lost. A lost event delays its notice by one grace, usually 50 ms.
//
// Every pending notice is in the shadow, a sorted set in Redis ordered by due time. Most also have a timer: a Redis key
// that expires at the due time. When Redis deletes the timer, it sends an expired event. By itself, Redis may do so
// seconds or minutes late. But when a client reads an expired timer, Redis deletes it at once. So an instance touches
// each timer, which means to read it, when it is due.
//
//	sleep until the first timer is due ──▶ touch it ──▶ Redis sends the event ──▶ an instance claims the notice
//	                                          │
//	                                          └── one grace later, if the notice is unclaimed ──▶ sweep
//
// A [Sweeper] does this for one partition: the notices of one route in one shard, a part of the notices on one Redis
// node. Packages listener and dispatch receive the event and claim the notice, to deliver it. A sweep makes package
// dispatch claim due notices without an event.
//
// Two more types work on notices in Redis. The [Janitor] deletes old notices, and moves notices to their routes.
// [Hooks] schedules notices that inform operators about dead letters and failing receivers.
//
// # Guarantees
//
//   - No notice is lost with an event or a message, because the shadow contains all pending notices.
//   - A sweep causes no second delivery, because only one claim of a notice succeeds.
//   - No notice is claimed early, because Redis's clock decides. A timer that was touched too early is touched again.
//
// # Failures
//
//	failure                         effect
//	an event is lost                the notice is swept one grace later
//	no events arrive                notices are swept when they are due
//	a call fails                    the Sweeper retries after 20 ms, and later after up to 250 ms
//	a preferred instance is dead    another instance sweeps, usually one grace later
//	a wake message is lost          the notice is found later, by an inspection (a call that lists due notices)
//
// A wake message tells the Sweeper that a notice is due earlier than those it knows. A partition without due notices is
// inspected every second, or every ten seconds while a subscription to events is alive.
//
// # Several instances
//
// Two rankings of the instances divide the work:
//
//   - By partition ([Assignment]): the first instance, the preferred one, inspects the partition and touches its
//     timers. The second one sweeps notices that are still unclaimed one grace after their due time, the third one
//     after two graces, and so on.
//   - By key: all instances receive each event, and the instance preferred for the notice's key claims the notice.
//     Notices that are due together may be claimed as a group, by the instance preferred for the first key.
//
// # Instances of different configurations
//
// During a rollout, instances may have different routes for a key: one has a route for app, another one for app:m. Each
// stores a notice under the prefix of its own route, and delivers the notices under its own prefixes. It stays one
// notice for a key, which is delivered once:
//
//   - A call that creates a notice, or that does not find one, checks all prefixes that may contain the key (package
//     layout).
//   - A claim is named after the key alone, so it holds under every prefix.
//   - The Janitor moves a notice to the matching route if no alive instance serves its prefix, or if a route with a
//     longer prefix matches its key. [Redis.Rehome] decides if the key has notices under both prefixes.
package reconcile
