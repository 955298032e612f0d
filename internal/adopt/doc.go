// Package adopt makes notices of plain Redis timers.
//
// On a route that adopts, any client in any language schedules a notice with
//
//	SET app:module:type:id <payload> EX 15
//
// or with PX, EXAT, PXAT, GETEX, or SET and EXPIRE, also inside MULTI with the client's own writes.
// The payload becomes the notice's body. From then on the notice is like any other: delivered when
// the timer expires, retried, kept as a dead letter, listed by the API.
//
//	SET again       a new notice replaces the old one, also during an attempt
//	EXPIRE          the notice is rescheduled
//	DEL, RENAME     the notice is cancelled
//	PERSIST, SET without expiry   the notice is cancelled: a key that never expires is not a timer
//
// # How it works
//
// Keyspace events only say which keys to check. One script reads timer and notice together, and the
// decision depends on what it returns. A second script writes the result, if both are still
// unchanged. So events may come late, twice or in the wrong order.
//
// A scan checks all keys under the routes' prefixes in the same way. It runs at the start, after
// each new subscription, after notify flags had to be set again, and every minute. It also looks in
// the shadow for notices whose timers are missing or have another type. For notices that are due
// within a second and a half this is repeated. A check costs Redis about 7 µs a key (measured with
// 200,000) in calls of at most half a millisecond. The scan each minute runs less often if it would
// take more than 2 % of the time. If Redis sends no events and does not allow the service to enable
// them, scans run every second, within the same bound.
//
// The timer keeps its payload until it expires. The service's own timers have the same names. They
// hold the number of the next attempt, and belong to a pending notice that is due one millisecond
// after they expire. A timer is due when it has expired, which is in the first millisecond after
// the time that PEXPIRETIME returns.
//
// The service never overwrites a client's timer on its own. When a failed attempt is settled, its
// timer has long expired. A timer that exists then has a new value, even if it is a number, and is
// adopted in place of the retry. Calls of the API check the key's timer first, so that a call after
// a SET finds it adopted. A bulk redrive leaves existing timers alone. A producer's own script
// (deploy/schedule.lua) does overwrite a timer, because both belong to the producer.
//
// # Guarantees
//
// An adopted timer is a notice with all guarantees of a notice. While events arrive, adoption takes
// about a millisecond. A timer that exists when a subscription begins is adopted if it lives until
// the following scan has reached it.
//
// A timer that expires before its adoption, and whose expired event arrives, becomes a notice
// without a body, due at once: a callback has the header notifier-body: lost, an entry has
// body_lost. A payload longer than NOTIFIER_MAX_BODY is adopted in the same way, with a log
// message.
//
// # Limits
//
// A timer is lost if no instance is subscribed from its SET to its expired event, because Redis
// keeps no trace of it. If a notice must not depend on a running instance, schedule it with the API
// or deploy/schedule.lua, or give the timer a life longer than the outage. If Redis sends no
// events, a timer is lost if it lives for less than the time between two scans.
//
// If Redis evicts volatile keys (maxmemory-policy volatile-…, allkeys-…), it may evict a timer
// before its adoption. After the adoption an eviction does no harm: it cancels no notice.
//
// A DEL whose event is lost cancels the notice when timers and notices are compared next: when a
// subscription begins, at each scan, and between 0.5 and 1.5 s before the notice is due. The notice
// is delivered despite the DEL if the timer was deleted later than that or lived for less than
// about six seconds. It is also delivered in a cluster, whose nodes may lose a timer and keep its
// notice, and where Redis evicts or sends no events. Cancel with the API where that matters. The
// comparison has a price: a timer that was shortened and expired while no instance was subscribed
// looks deleted, and its notice is cancelled.
//
// Redis deletes a key at once if its new expiry is in the past (EXPIRE k 0), as DEL would, which
// cancels the notice. So use the API and not EXPIREAT for a time that may be in the past. A SET
// with such an expiry is delivered without its body, if at all.
//
// A key that is reused within five minutes of the end of its last notice (in a cluster, within the
// retention), and that expires before its adoption, looks like a late event of the old notice: it
// is not delivered.
//
// A SET over a scheduled notice, with "0" or the number of the next attempt as payload, looks like
// the service's own timer; only its event identifies it. If that event is lost, or comes 250 ms
// after a scan, its expiry is used and its payload is not. Such a payload is adopted 250 ms after
// its event, because an EXPIRE of the service's own timer may have come between the event and the
// check. Only a timer that has less than half a second to live is adopted at once; then such an
// EXPIRE makes the number a payload. During an attempt there is no such timer.
//
// In a cluster, timer and record are in different slots and are read one after the other.
//
//   - While the record's node is unreachable, each instance keeps the payloads of its timers in
//     memory, up to 32 MiB. A timer that expires in that time is adopted with its payload when that
//     node or its successor answers. A payload that looks like an attempt number is not kept.
//   - A timer that differs from its record is checked twice, 250 ms apart, before the notice is
//     cancelled.
//   - In the last second of a timer, changes are not followed. A number that is set during an
//     attempt counts as the retry's timer.
//   - A timer that is shortened and expires before its check does not change the due time of its
//     notice: its expired event may be that of a timer which is about to be replaced by a later
//     one.
//
// Do not use adoption for timers whose expiry other programs rely on under another name or type. Do
// not write to the service's timers of pending retries: SET replaces the notice, DEL cancels it.
package adopt
