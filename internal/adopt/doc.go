// Package adopt makes notices of plain Redis timers.
//
// On a route that adopts, any client in any language schedules a notice with
//
//	SET app:module:type:id <payload> EX 15
//
// (or PX, EXAT, PXAT, GETEX, SET and EXPIRE, also inside MULTI beside its own
// writes). The payload is kept as the notice's body, and from then on the notice
// is one like any other: delivered when the timer expires, retried, kept as a
// dead letter, listed by the API.
//
//	SET again       a new notice takes the place of the old one, also amid an attempt
//	EXPIRE          the notice moves
//	DEL, RENAME     the notice is cancelled
//	PERSIST, SET without expiry   the same: what never expires is no timer
//
// # How
//
// Keyspace events say which keys to look at, and nothing else: what is done
// follows from the timer and the notice as one script sees them together, and is
// written by a second script only if both are still what was seen. So events
// may come late, twice, or in the wrong order. At the start, after each
// subscription that was made anew, when notify flags had to be set again, and
// every minute, all keys under the routes' prefixes are looked at in the same
// way; and notices whose timers are gone, or hold another type, are looked for in
// the shadow, then and again in the last second and a half before they are due. A look costs Redis about 7 µs a key
// (measured with 200,000) in calls of half
// a millisecond at most; the one each minute is made less often where it would
// take more than a fiftieth of the time. Where Redis sends no events and may not
// be told to, keys are looked at each second, within the same bound.
//
// The timer keeps its payload until it expires. The service's own timers lie
// under the same names: they hold the number of the coming attempt, and belong to
// a pending notice that is due one millisecond after they expire. A timer is due
// when it has expired, which is in the first millisecond after the instant that
// PEXPIRETIME names.
//
// A timer that a client has set is never overwritten by what the service does of
// itself. When a failed attempt is settled, its timer has long expired: whatever
// stands in its place is a new value, a number too, and is adopted in the place of
// the retry. Calls of the API look at the key's timer before they do anything, so
// that one that comes after a SET finds it adopted; a redrive of many leaves the
// timers alone that it meets. A producer's own script (deploy/schedule.lua) does
// write over a timer: that is its producer's last word.
//
// # What is guaranteed
//
// A timer that was adopted is a notice and has all a notice's guarantees.
// Adoption takes about a millisecond when events arrive. A timer that was there
// when a subscription began, and lives until the scan that follows has come to
// it, is adopted.
//
// A timer that expires before it was adopted, and whose expired event arrives,
// becomes a notice without a body, due at once: a callback with the header
// notifier-body: lost, an entry with body_lost. A payload that is longer than
// NOTIFIER_MAX_BODY is taken the same way, and said in the log.
//
// # What is not
//
// A timer whose whole life, from SET to the expired event, falls into a time
// when no instance was subscribed leaves no trace in Redis and is never heard of.
// Schedule through the API, or by deploy/schedule.lua, what must not depend on
// an instance being up; or give the timer a life longer than the outage. Where
// Redis sends no events this is so of each timer that lives for less than the time
// between two looks.
//
// Redis that evicts volatile keys (maxmemory-policy volatile-…, allkeys-…) may
// evict a timer before it was adopted. Evicting it afterwards costs nothing: an
// eviction cancels no notice.
//
// A DEL whose event is lost cancels when timers and notices are next compared: when
// a subscription begins, at each look, and between half a second and a second and
// a half before the notice is due. What is deleted later than that, or lived for
// less than some six seconds, and whose event is lost, is delivered; so is
// everything in a cluster, whose nodes may lose a timer and keep its notice, and
// where Redis evicts or sends no events. Cancel by the API where that matters. The
// price:
// a timer that was shortened and expired while nobody was subscribed looks as if
// it had been deleted, and is cancelled.
//
// Redis deletes a key at once when it is given an expiry that has passed (EXPIRE
// k 0), as DEL would: that cancels. So a time that may have passed is one for the
// API and not for EXPIREAT; and a SET with such an expiry is delivered without its
// body at best.
//
// A key that is used again within five minutes of the end of its last notice
// (in a cluster, within the retention), and whose second life is over before it
// was adopted, is taken for a late event of the first: it is not delivered.
//
// A SET over a notice that waits, whose payload is "0" or the number of the coming
// attempt, looks like the service's own timer: only its event tells that it is a
// new one. Where that event is lost, or comes a quarter of a second later than a look
// at all keys, its expiry is followed and its payload is not. And where an EXPIRE is
// carried out between the service's own SET of such a timer and the look at it, a
// millisecond as a rule, the number is taken for a payload. (Amid an attempt there is
// no such timer.)
//
// In a cluster timer and record lie in different slots and are looked at one
// after the other. While the node of the record is unreachable, each instance keeps
// the payloads of its timers in memory, 32 MiB at most: a timer that expires
// meanwhile is adopted with its payload when that node, or its successor, answers.
// A payload that looks like the number of an attempt is not kept. A timer that
// differs from its record is looked at twice, a quarter of a second apart, before
// the notice is cancelled; a timer's last second is not followed, and
// a number that is set amid an attempt is taken for the retry's timer. One that is
// shortened and over before it was looked at leaves its notice due when it was: its
// expired event may be that of a timer which is about to be replaced by a later one.
//
// Do not use adoption for timers that others rely on expiring under another
// name or type, and do not write to the service's timers of pending retries:
// SET replaces the notice, DEL cancels it.
package adopt
