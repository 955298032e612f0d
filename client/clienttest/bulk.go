package clienttest

import (
	"cmp"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/client"
)

// reasons are the reasons that a dead letter may have in the service.
var reasons = []string{"dns", "connect", "tls", "timeout", "reset", "protocol", "status_4xx", "status_5xx", "status", "ack_mismatch",
	"redirect", "too_large", "blocked", "invalid", "gone", "aborted", "panic", "interrupted", "exhausted", "expired", "rejected", "unreported",
	"decode", "queue", "unreadable", "missing", "forgotten", "locked", "busy", "rate", "breaker", "headers", "token", "local", "sealed",
	"paused", "shutdown",
	"lease"}

// bulk is a bulk redrive or a bulk purge, or the filter of a listing.
type bulk struct {
	dryRun       bool
	rate         float64 // a second; 0 = at once
	prefix       string
	reason, host string
	since, until time.Time
}

func (s *Service) redriveRoute(r *http.Request, body []byte) (int, any) {
	b, letters := s.bulkOf(r, body, "rate")
	due := slices.DeleteFunc(slices.Clone(letters), func(n *notice) bool { return n.expired(s.now) })
	if !b.dryRun {
		for i, n := range due {
			s.revive(n)
			if b.rate > 0 {
				n.due = s.now.Add(time.Duration(float64(i) / b.rate * float64(time.Second)))
			}
		}
	}

	return http.StatusOK, b.answer("redriven", len(letters), len(due))
}

func (s *Service) purgeRoute(r *http.Request, body []byte) (int, any) {
	b, letters := s.bulkOf(r, body)
	if !b.dryRun {
		for _, n := range letters {
			n.state, n.settledAt = client.Cancelled, s.now
		}
	}

	return http.StatusOK, b.answer("purged", len(letters), len(letters))
}

func (b *bulk) answer(verb string, matched, changed int) map[string]any {
	if b.dryRun {
		changed = 0
	}

	return map[string]any{"dry_run": b.dryRun, "matched": matched, verb: changed}
}

// bulkOf reads a bulk call, and returns the dead letters that match, by time of death.
func (s *Service) bulkOf(r *http.Request, body []byte, more ...string) (*bulk, []*notice) {
	q := r.URL.Query()
	known := append(more, "dry_run", "prefix", "reason", "host", "since", "until", "cursor")
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch {
		case !slices.Contains(known, name):
			panic(wrongField("query."+name, "no such parameter; there are %s", strings.Join(known, ", ")))
		case len(q[name]) > 1:
			panic(wrongField("query."+name, "is given twice"))
		}
	}

	noBody(body)
	b := readBulk(q, "query.")

	name := r.PathValue("name")
	if s.routeNamed(name) == nil {
		panic(noRoute(name))
	}

	// All is done in one step, so no cursor is valid.
	if _, err := base64.RawURLEncoding.DecodeString(q.Get("cursor")); err != nil || q.Get("cursor") != "" {
		panic(wrongCursor())
	}

	var letters []*notice
	for _, n := range s.kept {
		if n.route.Name == name && n.state == client.Dead && b.fits(n) {
			letters = append(letters, n)
		}
	}

	slices.SortFunc(letters, func(a, b *notice) int { return cmp.Or(a.settledAt.Compare(b.settledAt), strings.Compare(a.key, b.key)) })
	return b, letters
}

// readBulk reads the parameters of a bulk call. Problems name them with at before them.
func readBulk(q url.Values, at string) *bulk {
	b := &bulk{host: strings.ToLower(strings.TrimSuffix(q.Get("host"), ".")), prefix: strings.TrimSuffix(q.Get("prefix"), ":"),
		reason: q.Get("reason")}
	switch {
	case strings.ContainsAny(b.host, ":/ ") && !strings.Contains(b.host, "::"):
		panic(wrongField(at+"host", "want a host without scheme, port and path"))
	case strings.Count(b.prefix, ":") > 2:
		panic(wrongField(at+"prefix", "want app, app:module or app:module:type"))
	case b.reason != "" && !slices.Contains(reasons, b.reason):
		panic(wrongField(at+"reason", "want one of %s", strings.Join(reasons, ", ")))
	}

	b.since, b.until = instant(q, at, "since"), instant(q, at, "until")
	if !b.since.IsZero() && !b.until.IsZero() && !b.since.Before(b.until) {
		panic(wrongField(at+"until", "is not after since"))
	}

	switch q.Get("dry_run") {
	case "true":
		b.dryRun = true
	case "", "false":
	default:
		panic(wrongField(at+"dry_run", "want true or false"))
	}

	if text := q.Get("rate"); text != "" {
		b.rate = readRate(text, at)
	}

	return b
}

func instant(q url.Values, at, name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, q.Get(name))
	if err != nil && q.Get(name) != "" {
		panic(wrongField(at+name, "want a time such as 2026-11-21T09:30:00Z"))
	}

	return t
}

// readRate reads a rate such as 5/s, 30/m or 100/h, a second.
func readRate(text, at string) float64 {
	count, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(count, 64)
	span, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	if err != nil || n <= 0 || !known {
		panic(wrongField(at+"rate", "want a rate such as 5/s"))
	}

	return n / span.Seconds()
}

// fits reports whether a notice matches. Since and until are about the time of its outcome, or else about its due time.
func (b *bulk) fits(n *notice) bool {
	at := n.due
	if !n.settledAt.IsZero() {
		at = n.settledAt
	}

	return under(n.key, b.prefix) && (b.reason == "" || n.reason == b.reason) && (b.host == "" || n.host() == b.host) &&
		!at.Before(b.since) && (b.until.IsZero() || at.Before(b.until))
}

// host is the host that is called for a notice; empty without one.
func (n *notice) host() string {
	address := n.url
	if address == "" && targetKind(n.route.Target) == "http" {
		address = n.route.Target
	}

	u, err := url.Parse(address)
	if err != nil {
		return ""
	}

	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}
