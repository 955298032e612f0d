package ui

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"notifier/internal/health"
)

// hostRow is a receiver of a route, at all instances together.
type hostRow struct {
	Route, Prefix   string
	Host, Name      string // with its port, and without
	Anchor          string
	Breaker         string // empty = closed
	Retry           stamp
	InFlight, Slots int
	Unlimited       bool
	Slowed          bool
	Waiting         int
	Calls, Failed   int64
	Mean            string
	Level           level
	Says            string

	// Health is the receiver's health as it was At; zero if it has not failed within 48 hours.
	// Since and Answer are of a failing one.
	Health health.Receiver
	At     time.Time
	Since  stamp
	Answer string

	mean time.Duration
	next time.Time
}

type receiversPage struct {
	Hosts   []hostRow
	Rates   []rateRow
	Missing []string
	Stale   string
	Taken   stamp
}

// rateRow is a route's limits.
type rateRow struct {
	Route           string
	Rate            string
	HostConcurrency int
	Concurrency     int
	InFlight        int
	Now             string
}

func (p *Pages) showReceivers(w http.ResponseWriter, r *http.Request, v Visitor) error {
	return p.render(w, r, http.StatusOK, view{Template: "receivers", Title: "Receivers", Visitor: v, Live: "receivers",
		Data: p.receiversOf(p.sampler.current(r.Context()), v)})
}

// showDestinations leads from the former address of the receivers to theirs.
func (p *Pages) showDestinations(w http.ResponseWriter, r *http.Request, _ Visitor) error {
	w.Header().Set("Location", Root+"receivers")
	w.WriteHeader(http.StatusMovedPermanently)
	return nil
}

func (p *Pages) receiversOf(b *board, v Visitor) receiversPage {
	out := receiversPage{Hosts: p.hostsOf(b, v, ""), Taken: p.stamp(b.At)}
	out.Stale, out.Missing = p.stale(b, v), b.silent()
	for _, rt := range p.o.Routes.All() {
		if !v.Owns(rt.Prefix) {
			continue
		}
		row := rateRow{Route: rt.Name, Rate: "unlimited", HostConcurrency: rt.HostConcurrency, Concurrency: rt.Concurrency, InFlight: b.inFlight(rt.Prefix),
			Now: perSecond(b.rate(rt.Prefix, b.At))}
		if rt.Rate > 0 {
			row.Rate = perSecond(rt.Rate)
		}
		out.Rates = append(out.Rates, row)
	}
	return out
}

// hostsOf are the receivers of the routes that a visitor sees all of, those in
// trouble first. Each adds up what all instances report of it. If only is not empty, it is the one
// receiver that is returned.
func (p *Pages) hostsOf(b *board, v Visitor, only string) []hostRow {
	type id struct{ prefix, host string }
	by := map[id]*hostRow{}
	var order []*hostRow
	for _, i := range b.Instances {
		for _, h := range i.Figures.Hosts {
			if !v.Owns(h.Prefix) || only != "" && h.Host != only {
				continue
			}
			row := by[id{h.Prefix, h.Host}]
			if row == nil {
				row = &hostRow{Route: p.routeName(h.Prefix), Prefix: h.Prefix, Host: h.Host, Name: h.Host}
				if name, _, err := net.SplitHostPort(h.Host); err == nil {
					row.Name = name
				}
				row.Anchor = anchor(h.Prefix + "-" + h.Host)
				by[id{h.Prefix, h.Host}] = row
				order = append(order, row)
			}
			row.InFlight += h.InFlight
			row.Slots += h.Slots
			row.Unlimited = row.Unlimited || h.Slots == 0
			row.Waiting += h.Waiting
			row.Calls += h.Calls
			row.Failed += h.Failed
			row.Slowed = row.Slowed || h.Slowed
			if h.Breaker != "" {
				row.Breaker = h.Breaker
				row.next = time.UnixMilli(h.RetryMS)
			}
			row.mean += time.Duration(h.MeanMS*max(h.Calls, 1)) * time.Millisecond
		}
	}
	for i := range b.Health {
		route := &b.Health[i]
		if !v.Owns(route.Prefix) {
			continue
		}
		for _, r := range route.Receivers {
			row := by[id{route.Prefix, r.Name}]
			switch {
			case only != "" && r.Name != only, only == "" && row == nil && !r.Failing():
				continue
			case row == nil:
				row = &hostRow{Route: p.routeName(route.Prefix), Prefix: route.Prefix, Host: r.Name, Name: health.Host(r.Name), Anchor: anchor(route.Prefix + "-" + r.Name)}
				order = append(order, row)
			}
			row.Health, row.At = r, b.At
			row.Waiting = max(row.Waiting, r.Waiting)
			if r.Failing() {
				row.Since, row.Answer = p.stamp(r.Since), lastAnswer(&r)
			}
		}
	}
	out := make([]hostRow, len(order))
	for i, row := range order {
		row.mean /= time.Duration(max(row.Calls, 1))
		if row.Mean = rough(row.mean); row.mean < time.Millisecond { // they are told in whole milliseconds
			row.Mean = "< 1ms"
		}
		if row.Calls == 0 {
			row.Mean = "–"
		}
		row.judge()
		if row.Breaker != "" {
			row.Retry = p.stamp(row.next)
			if row.next.Before(b.At) {
				row.Retry.Ago = "when a notice for it falls due"
			}
		}
		out[i] = *row
	}
	slices.SortFunc(out, func(a, b hostRow) int {
		return cmp.Or(rank(b.Level)-rank(a.Level), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Route, b.Route))
	})
	return out
}

// judge says in words how the receiver stands. What is not known is not claimed: a host that
// was not called, or never answered, is not said to answer.
func (h *hostRow) judge() {
	switch {
	case h.Health.Failing():
		h.Level, h.Says = gravity(&h.Health, h.At), "failing"
	case h.Breaker != "":
		h.Level, h.Says = wrong, "does not answer"
	case h.Waiting > 0 && h.Slots > 0 && h.InFlight >= h.Slots:
		h.Level, h.Says = mind, "all slots taken"
	case h.Slowed:
		h.Level, h.Says = mind, "rate limited by receiver"
	case h.Calls > 0 && h.Failed == h.Calls:
		h.Level, h.Says = mind, "all calls fail"
	case h.Calls >= failingLeast && float64(h.Failed) >= failingShare*float64(h.Calls):
		h.Level, h.Says = mind, "most calls fail"
	case h.Failed > 0:
		h.Level, h.Says = fine, "some calls fail"
	case h.Calls == 0:
		h.Level, h.Says = "", "no recent calls"
	default:
		h.Level, h.Says = fine, "answers"
	}
}

// Path is the address of its page.
func (h hostRow) Path() string { return receiverPath(h.Host) }

// ErrorRate is the share of calls that failed.
func (h hostRow) ErrorRate() string {
	if h.Calls == 0 {
		return "–"
	}
	return trimmed(100*float64(h.Failed)/float64(h.Calls)) + " %"
}

// anchor makes a name for a place on a page.
func anchor(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, s)
}
