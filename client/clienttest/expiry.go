package clienttest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"notifier/client"
)

// expiry is when a notice expires: at a time, or, if after is not zero, so long after its due time, which is then at.
type expiry struct {
	at    time.Time
	after time.Duration
	first *time.Time // of the schedule call, if the notice was sent again with another expiry
}

// fixed returns the time of the schedule call if it was given as one. A repeated call must give it again.
func (x expiry) fixed() time.Time {
	switch {
	case x.after != 0:
		return time.Time{}
	case x.first != nil:
		return *x.first
	}
	return x.at
}

// readExpiry decodes a time or a duration.
func readExpiry(raw json.RawMessage, at string) (x expiry) {
	var text string
	if json.Unmarshal(raw, &text) == nil && strings.ContainsAny(text, "TtZz:") {
		if json.Unmarshal(raw, &x.at) != nil {
			panic(wrongField(at, "want a time such as 2026-11-21T09:30:00Z"))
		}

		return expiry{at: x.at.UTC()}
	}

	d := durationOf(raw, at)
	if d < time.Millisecond {
		panic(wrongField(at, "want a time, or a duration after the due time such as 10m"))
	}

	return expiry{after: d}
}

// from returns the expiry of a notice that is due at a time. It refuses one that would have expired then.
func (x expiry) from(due time.Time) expiry {
	if x.after != 0 {
		x.at = due.Add(x.after)
	}

	if !x.at.IsZero() && !x.at.After(due) {
		panic(failed(http.StatusUnprocessableEntity, "the notice would have expired by then; want a later expires, or an earlier due time"))
	}

	return x
}

// again returns the expiry of a notice that is sent again now: a new one, or its own.
func (s *Service) again(n *notice, x expiry) expiry {
	if x == (expiry{}) {
		expiry{at: n.expires.at}.from(s.now) // refuses one that has passed
		return n.expires
	}

	x = x.from(s.now)
	first := n.expires.fixed()
	x.after, x.first = n.expires.after, &first // the duration of the schedule call is shown
	return x
}

// expired reports whether no attempt may begin at a time.
func (n *notice) expired(at time.Time) bool {
	return !n.expires.at.IsZero() && !at.Before(n.expires.at)
}

// wakes returns when the notice is due, or when it expires before that. A report that is awaited decides.
func (n *notice) wakes() time.Time {
	if !n.handed && n.expired(n.due) {
		return n.expires.at
	}
	return n.due
}

// bury makes a notice dead that has expired.
func (s *Service) bury(n *notice) {
	n.state, n.settledAt, n.reason, n.handed = client.Dead, s.now, "expired", false
}

func (s *Service) redrive(r *http.Request, _ []byte) (int, any) {
	var x expiry
	if text := r.URL.Query().Get("expires"); text != "" {
		x = readExpiry(json.RawMessage(strconv.Quote(text)), "query.expires")
	}

	if n := s.find(r); n.state == client.Dead {
		x = s.again(n, x)
	}

	return s.change(r, "redriven", func(n *notice) {
		s.revive(n)
		n.expires = x
	}, client.Dead)
}
