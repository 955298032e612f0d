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
// way. A look costs Redis about 7 µs a key (measured with 200,000) in calls of half
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
// A DEL whose event is lost does not cancel: the notice is delivered. Cancel by
// the API where that matters.
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
// A second SET over a pending notice whose payload is "0" or the number of the
// coming attempt is taken for the service's own timer: its expiry is followed,
// its payload is not.
//
// In a cluster timer and record lie in different slots and are looked at one
// after the other. What differs then is looked at twice, a quarter of a second
// apart, before a notice is cancelled; a timer's last second is not followed.
//
// Do not use adoption for timers that others rely on expiring under another
// name or type, and do not write to the service's timers of pending retries:
// SET replaces the notice, DEL cancels it.
package adopt
