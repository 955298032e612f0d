// Package adopt turns plain Redis timers into notices. A plain timer is a string key that a client has set with an
// expiry:
//
//	SET app:module:type:id <payload> EX 15
//
// PX, EXAT, PXAT, GETEX, or SET and EXPIRE work too, also inside MULTI with the client's own writes. The payload
// becomes the body of the notice. This works on routes with adoption, for clients in any language.
//
// From then on the notice is like any other: it is delivered when the timer expires, retried, kept as a dead letter,
// and listed by the API. The client changes it with Redis commands:
//
//	SET again                     a new notice replaces the old one, also during an attempt
//	EXPIRE                        the notice is rescheduled
//	DEL, RENAME                   the notice is cancelled
//	PERSIST, SET without expiry   the notice is cancelled: a key that never expires is not a timer
//
// # Rules for clients
//
// Do not use adoption for timers whose expiry other programs rely on under another name or type. Do not write to the
// timers that the service sets for retries: SET replaces the notice, and DEL cancels it.
//
// # How it works
//
//	keyspace event ─┐
//	                ├─▶ key ─▶ read timer and notice ─▶ decide ─▶ write, if both are unchanged
//	scan ───────────┘          (one script)            (rules)    (one script)
//
// An event only says which key to check, so events may come late, twice or in the wrong order.
//
// A scan checks all keys under the prefixes of the routes. It runs at the start, after each new subscription, after
// notify flags had to be set again, and every minute. If Redis sends no events, and the service may not enable them,
// it runs every second. Scans take at most 2 % of the time, so with many keys they run less often. Checking a key
// costs Redis about 7 µs (measured with 200,000), in calls of at most half a millisecond.
//
// A scan also looks for notices whose timer is missing or has another type. For notices that are due soon, that search
// runs more often (see compare.go).
//
// # The service's own timers
//
// The timers of the service have the same names as those of clients. A timer of the service holds the number of the
// next attempt, and its notice is due one millisecond after it expires. The service never overwrites a client's timer
// on its own:
//
//   - A retry sets its timer long after the previous one has expired. If a timer exists then, a client has set it, and
//     it is adopted in place of the retry.
//   - A call of the API checks the key's timer first. So a call after a SET finds the notice of that SET.
//   - A redrive of many notices does not change existing timers.
//
// Only deploy/schedule.lua overwrites a timer, since it is the producer's script.
//
// # Guarantees
//
// An adopted notice has all guarantees of other notices. While events arrive, adoption takes about a millisecond. If a
// timer was set without a subscription, the scan after the next subscription adopts it, unless it has expired by then.
//
// A timer may expire before its adoption. If its expired event arrives, it becomes a notice without a body, due at
// once. A callback then has the header notifier-body: lost, and an entry of a list or stream has body_lost. A payload
// longer than NOTIFIER_MAX_BODY is adopted in the same way, with a log message.
//
// # Limits
//
// Lost timers. Redis keeps no trace of an expired timer. So a timer is lost if no instance is subscribed from its SET
// until it expires. Without events, it is lost if it lives for less than the time between two scans. Redis may also
// evict a timer before its adoption (maxmemory-policy volatile-…, allkeys-…). Evictions after the adoption do no harm.
// If a notice must not be lost in these ways, schedule it with the API or with deploy/schedule.lua.
//
// Lost deletions. If the event of a DEL is lost, the next search for missing timers cancels the notice, at the latest
// 0.5 to 1.5 s before it is due. The notice is delivered all the same if the timer was deleted later, or lived for
// less than about six seconds. It is also delivered in a cluster, if Redis may evict, and without events. Where that
// matters, cancel with the API.
//
// Unseen expiries. A timer that was shortened, and expired while no instance was subscribed, looks deleted. So its
// notice is cancelled.
//
// Expiry in the past. Redis deletes such a key at once, as DEL does, so EXPIRE k 0 cancels the notice. A SET with such
// an expiry is delivered without its body, if at all.
//
// Reused keys. An expired event within five minutes of the end of the key's last notice (in a cluster, within the
// retention) looks like a late event of that notice. So a timer that is set and expires in that time before its
// adoption is not delivered.
//
// Payloads that look like an attempt number. A SET over a scheduled notice with "0" or the number of the next attempt
// looks like the service's own timer. Only its event shows the difference. If that event is lost, or arrives more than
// 250 ms after a scan, the new expiry is used and the payload is not. Such a payload is adopted 250 ms after its
// event, because an EXPIRE of the service's own timer may have come between the event and the check. A timer that
// expires in less than half a second is adopted at once; then such an EXPIRE makes the number a payload.
//
// # Clusters
//
// Timer and notice are in different slots and are read one after the other.
//
//   - While the node of a notice is unreachable, each instance keeps the payloads of its timers in memory, up to 32
//     MiB. A timer that expires in that time is adopted when the node answers again. A payload that looks like an
//     attempt number is not kept.
//   - If a timer does not match its notice, it is checked again 250 ms later, before the notice is cancelled.
//   - Changes in the last second of a timer are ignored. A number that is set during an attempt is taken for the timer
//     of the retry.
//   - If a timer is shortened and expires before its check, the due time of its notice stays the same. The expired
//     event may be that of a timer that is about to be replaced by a later one.
package adopt
