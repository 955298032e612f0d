// Package adopt turns plain Redis timers into notices. A timer is a string key that expires.
//
// On a route with adoption, any client in any language schedules a notice with
//
//	SET app:module:type:id <payload> EX 15
//
// or with PX, EXAT, PXAT, GETEX, or SET and EXPIRE, also inside MULTI with the client's own writes.
// The payload becomes the body. From then on the notice is like any other: it is delivered when the
// timer expires, retried, kept as a dead letter, and listed by the API.
//
//	SET again                     a new notice replaces the old one, also during an attempt
//	EXPIRE                        the notice is rescheduled
//	DEL, RENAME                   the notice is cancelled
//	PERSIST, SET without expiry   the notice is cancelled: a key that never expires is not a timer
//
// # How it works
//
//	keyspace event ─┐
//	                ├─▶ key ─▶ read timer and notice ─▶ decide ─▶ write, if both are unchanged
//	scan ───────────┘          (one script)            (rules)    (one script)
//
// An event only says which key to check, so events may come late, twice or in the wrong order.
//
// A scan checks all keys under the routes' prefixes. It runs at the start, after each new
// subscription, after notify flags had to be set again, and every minute. It also looks for notices
// whose timers are missing or have another type; for notices that are due soon, that search is
// repeated (see compare.go). A check costs Redis about 7 µs a key (measured with 200,000), in calls
// of at most half a millisecond. Scans take at most 2 % of the time, so with many keys they run less
// often. If Redis sends no events, and the service may not enable them, scans run every second,
// within the same bound.
//
// The service's own timers have the same names as a client's. A timer of the service holds the
// number of the next attempt, and its notice is due one millisecond after it expires. The service
// never overwrites a client's timer on its own. A retry's timer is set when the previous timer has
// long expired, so a timer that exists then is a client's, and is adopted in place of the retry.
// Calls of the API check the key's timer first, so a call after a SET finds its notice. A bulk
// redrive leaves existing timers alone. (deploy/schedule.lua overwrites a timer, since it is the
// producer's script.)
//
// # Guarantees
//
// Once adopted, a notice has all guarantees of a notice. While events arrive, adoption takes about a
// millisecond. A timer that exists when a subscription begins is adopted by the scan that follows,
// if it lives until then.
//
// A timer that expires before its adoption, and whose expired event arrives, becomes a notice
// without a body, due at once. A callback then has the header notifier-body: lost, and an entry has
// body_lost. A payload longer than NOTIFIER_MAX_BODY is adopted in the same way, with a log message.
//
// # Limits
//
// Lost timers. Redis keeps no trace of an expired timer. So a timer is lost if no instance is
// subscribed from its SET until it expires; without events, if it lives for less than the time
// between two scans. Redis may also evict a timer before its adoption (maxmemory-policy volatile-…,
// allkeys-…); after the adoption an eviction does no harm. If a notice must not depend on that,
// schedule it with the API or with deploy/schedule.lua.
//
// Lost deletions. A DEL whose event is lost is found by the next search for missing timers, at the
// latest 0.5 to 1.5 s before the notice is due. The notice is delivered all the same if the timer
// was deleted later or lived for less than about six seconds, in a cluster, where Redis evicts, and
// without events. Cancel with the API where that matters. In return, a timer that was shortened and
// expired while no instance was subscribed looks deleted, and its notice is cancelled.
//
// Expiry in the past. Redis deletes such a key at once (EXPIRE k 0), as DEL would, which cancels the
// notice. A SET with such an expiry is delivered without its body, if at all.
//
// Reused keys. A timer that expires before its adoption, within five minutes of the end of its
// key's last notice (in a cluster, within the retention), looks like a late event of that notice,
// and is not delivered.
//
// Payloads that look like an attempt. A SET over a scheduled notice with "0" or the number of the
// next attempt looks like the service's own timer; only its event tells them apart. If that event is
// lost, or comes 250 ms after a scan, the new expiry is used and the payload is not. Such a payload
// is adopted 250 ms after its event, because an EXPIRE of the service's own timer may have come
// between the event and the check. Only a timer that has less than half a second to live is adopted
// at once; then such an EXPIRE makes the number a payload.
//
// # Clusters
//
// Timer and notice are in different slots and are read one after the other.
//
//   - While the node of a notice is unreachable, each instance keeps the payloads of its timers in
//     memory, up to 32 MiB. A timer that expires in that time is adopted when the node answers. A
//     payload that looks like an attempt number is not kept.
//   - A timer that does not match its notice is checked twice, 250 ms apart, before the notice is
//     cancelled.
//   - In its last second, changes of a timer are not followed. A number that is set during an
//     attempt counts as the retry's timer.
//   - A timer that is shortened and expires before its check does not change the due time of its
//     notice: the expired event may be that of a timer that is about to be replaced by a later one.
//
// Do not use adoption for timers whose expiry other programs rely on under another name or type. Do
// not write to the service's timers of pending retries: SET replaces the notice, DEL cancels it.
package adopt
