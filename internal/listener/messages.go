package listener

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// group is an announced group of events and the id of the instance it is for. It ends with the
// connection.
type group struct {
	id, prefix string
	left       int
}

// message handles one message.
func (l *Listener) message(m *redis.Message, next *group) {
	switch {
	case m.Pattern != "":
		key, ok := keys.KeyspaceKey(m.Channel)
		if r := l.routeOf(key); ok && r != nil && r.Adopt {
			l.o.Hints.Keyspace(r, key, m.Payload)
		}
	case m.Channel == l.o.Space.Wake():
		if id, n, prefix, ok := keys.ParseFor(m.Payload); ok {
			*next = group{id, prefix, n}
			return
		}
		l.wake(m.Payload)
	default:
		l.expired(m.Payload, next)
	}
}

func (l *Listener) routeOf(key string) *route.Route {
	if !keys.Valid(key) {
		return nil
	}
	return l.o.Routes.Match(key)
}

func (l *Listener) expired(key string, next *group) {
	if keys.HasPrefix(key, l.o.Space.Namespace) {
		l.o.Observer.Event(notice.EventForeign)
		return
	}

	if !keys.Valid(key) {
		l.unfit.report(l.o.Routes, key, l.o.Logger)
		l.o.Observer.Event(notice.EventForeign)
		return
	}

	r := l.o.Routes.Match(key)
	switch {
	case r == nil:
		l.o.Observer.Event(notice.EventUnrouted)
	case r.Recorded || l.leaves(r, key, next):
		l.o.Observer.Event(notice.EventLeft)
	case l.o.Hints.Expired(r, key):
		l.o.Observer.Event(notice.EventDispatched)
	default:
		l.o.Observer.Event(notice.EventDropped)
	}
}

// leaves reports whether an event is left to another instance.
func (l *Listener) leaves(r *route.Route, key string, next *group) bool {
	if next.left > 0 && next.prefix == r.Prefix {
		next.left--
		if mine, ok := l.o.Assignment.OwnsGroup(r, next.id); ok {
			return !mine
		}
	}
	return l.o.Assignment.LeavesToPeer(r, key)
}

// wake parses "<due ms> <shard> <prefix>", "expires <ms> <shard> <prefix>", "ticks <ms> <shard> <prefix>",
// "paused <prefix>" and "places <n>". Other messages are
// beats of other instances, or foreign.
func (l *Listener) wake(text string) {
	first, rest, _ := strings.Cut(text, " ")
	switch first {
	case "paused":
		l.o.Wakes.Paused()
		return
	case "places":
		l.o.Wakes.Places()
		return
	}

	kind := first
	if kind == "expires" || kind == "ticks" {
		first, rest, _ = strings.Cut(rest, " ")
	}

	ms, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return
	}

	shard, prefix, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(shard)
	if err != nil || n < 0 || n >= l.o.Space.Places() {
		return
	}

	p, at := keys.Partition{Prefix: prefix, Shard: n}, time.UnixMilli(ms)
	switch kind {
	case "expires":
		l.o.Wakes.Expires(p, at)
	case "ticks":
		l.o.Wakes.Ticks(p, at)
	default:
		l.o.Wakes.Wake(p, at)
	}
}
