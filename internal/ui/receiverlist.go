package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"notifier/internal/auth"
	"notifier/internal/fleet"
	"notifier/internal/problems"
	"notifier/internal/receivers"
)

// hostRow is a receiver of a route, with the figures of all instances.
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
	Mean            text
	Level           level
	Says            text

	// Paused and the limits apply to the receiver, whoever has set them; a limit of 0 is none.
	Paused           bool
	PausedUntil      stamp
	PausedBy         string // the rule; empty = a client
	LimitRate        string
	LimitConcurrency int
	MayHold          bool     // the visitor may pause and limit it
	Ruled            *holdRow // the pause by a rule that the table of pauses leaves out; nil = none

	// Health is the health at the time At; zero without a failure within 48 hours. Since and Answer are
	// set while the receiver fails.
	Health  receivers.Health
	Counted time.Time // when the waiting notices were counted
	At      time.Time
	Since   stamp
	Answer  text

	mean  time.Duration
	next  time.Time
	place string // in lists
}

type receiversPage struct {
	receiverList
	Routes  []string // that the visitor may choose
	Many    bool     // routes are too many for Rates
	Rates   []rateRow
	Missing text
	Stale   text
	// the times of the samples
	HostsAt, HeldAt, RedirectsAt, InstancesAt stamp

	Holds      []holdRow
	MoreHolds  int // those left out
	HoldsWrong text
	New        *holdForm // for a receiver that is not listed; nil without the right

	Redirects      []redirectRow
	Jobs           []redirectRow
	RedirectsWrong text
}

// rateRow is the limits of a route.
type rateRow struct {
	Route           string
	Rate            text
	HostConcurrency int
	Concurrency     int
	InFlight        int
	Now             perSecond
}

func (p *Pages) showReceivers(w http.ResponseWriter, r *http.Request, v Visitor) error {
	f := receiverFilterOf(r.URL.Query())
	page := p.receiversOf(p.sampler.Current(r.Context()), v, f)
	return p.render(w, r, http.StatusOK, view{Title: say("Receivers"), Visitor: v, Live: "receivers" + f.query(f.Page),
		Content: receiversContent(page)})
}

// showDestinations redirects from the old address of the receivers.
func (p *Pages) showDestinations(w http.ResponseWriter, r *http.Request, _ Visitor) error {
	w.Header().Set("Location", Root+"receivers")
	w.WriteHeader(http.StatusMovedPermanently)
	return nil
}

func (p *Pages) receiversOf(b *problems.Board, v Visitor, f receiverFilter) receiversPage {
	out := receiversPage{receiverList: p.listOf(b, v, f), HostsAt: p.stamp(b.HealthAt), InstancesAt: p.stamp(b.InstancesAt)}
	out.Stale, out.Missing = p.stale(b, v), silent(b, v)
	if out.Holds, out.MoreHolds = p.holdsOf(b, v, "", out.Hosts); b.HoldsErr != nil {
		out.HoldsWrong = say("The paused receivers are unknown or outdated: %s", p.failure(context.Background(), b.HoldsErr).text)
	}

	if out.Redirects, out.Jobs = p.redirectsOf(b, v); b.RedirectsErr != nil {
		out.RedirectsWrong = say("The jobs are unknown or outdated: %s", p.failure(context.Background(), b.RedirectsErr).text)
	}

	if len(out.Holds) > 0 {
		out.HeldAt = p.stamp(b.HeldAt)
	}

	if len(out.Redirects)+len(out.Jobs) > 0 {
		out.RedirectsAt = p.stamp(b.RedirectsAt)
	}

	if v.May(auth.Operate) {
		out.New = &holdForm{ID: "new", Prefix: v.Prefix, CSRF: v.CSRF}
	}

	p.addRates(b, v, &out)
	return out
}

// addRates adds the limits of the visitor's routes. Above mostCards, the page Routes has them.
func (p *Pages) addRates(b *problems.Board, v Visitor, out *receiversPage) {
	for _, rt := range p.o.Routes.All() {
		if !v.Owns(rt.Prefix) {
			continue
		}

		out.Routes = append(out.Routes, rt.Name)
		row := rateRow{Route: rt.Name, Rate: say("unlimited"), HostConcurrency: rt.HostConcurrency, Concurrency: rt.Concurrency,
			InFlight: b.InFlight(rt.Prefix), Now: perSecond(b.Rate(rt.Prefix, b.At))}
		if rt.Rate > 0 {
			row.Rate = plain(perSecond(rt.Rate))
		}

		out.Rates = append(out.Rates, row)
	}

	if out.Many = len(out.Rates) > mostCards; out.Many {
		out.Rates = nil
	}
}

// hostsOf returns one row for each receiver that the visitor may see, with the figures of all instances added up.
// Their order is that of receivers.Listed. If only is not empty, hostsOf returns only the receiver with that host.
func (p *Pages) hostsOf(b *problems.Board, v Visitor, only string) []hostRow {
	list := hostList{p: p, only: only, by: map[hostID]*hostRow{}}
	for _, i := range b.Instances {
		for _, h := range i.Figures.Hosts {
			if v.Owns(h.Prefix) {
				list.addFigures(&h)
			}
		}
	}

	for i := range b.Health {
		if v.Owns(b.Health[i].Prefix) {
			list.addHealth(&b.Health[i], b.HealthAt)
		}
	}

	out := make([]hostRow, len(list.rows))
	for i, row := range list.rows {
		p.finish(row, b.InstancesAt)
		row.addHold(p, b, v)
		one := row.listed()
		row.place = one.Position(b.At)
		out[i] = *row
	}

	slices.SortFunc(out, func(a, b hostRow) int { return cmp.Compare(a.place, b.place) })
	return out
}

type hostID struct{ prefix, host string }

// hostList collects the rows of receivers.
type hostList struct {
	p    *Pages
	only string // the one receiver that is wanted; empty = all
	by   map[hostID]*hostRow
	rows []*hostRow
}

// row returns the row of a receiver, and adds it if there is none.
func (l *hostList) row(prefix, host string) *hostRow {
	id := hostID{prefix, host}
	if l.by[id] == nil {
		row := &hostRow{Route: l.p.routeName(prefix), Prefix: prefix, Host: host, Name: receivers.Host(host), Anchor: anchor(prefix + "-" + host)}
		l.by[id], l.rows = row, append(l.rows, row)
	}

	return l.by[id]
}

// addFigures adds the figures of one instance.
func (l *hostList) addFigures(h *fleet.HostFigures) {
	if l.only != "" && h.Host != l.only {
		return
	}

	row := l.row(h.Prefix, h.Host)
	row.InFlight += h.InFlight
	row.Slots += h.Slots
	row.Unlimited = row.Unlimited || h.Slots == 0
	row.Waiting += h.Waiting
	row.Calls += h.Calls
	row.Failed += h.Failed
	row.Slowed = row.Slowed || h.Slowed
	if h.Breaker != "" {
		row.Breaker, row.next = h.Breaker, time.UnixMilli(h.RetryMS)
	}

	row.mean += time.Duration(h.MeanMS*max(h.Calls, 1)) * time.Millisecond
}

// addHealth adds the health of the receivers of a route: of those that failed within 48 hours.
func (l *hostList) addHealth(route *receivers.RouteHealth, at time.Time) {
	for _, r := range route.Receivers {
		if l.only != "" && r.Name != l.only {
			continue
		}

		row := l.row(route.Prefix, r.Name)
		row.Health, row.At, row.Counted = r, at, route.Counted
		row.Waiting = max(row.Waiting, r.Waiting)
		if r.Failing() {
			row.Since, row.Answer = stampFrom(at, r.Since), lastAnswer(&r)
		}
	}
}

// finish computes the columns that need the figures of all instances.
func (p *Pages) finish(row *hostRow, at time.Time) {
	row.mean /= time.Duration(max(row.Calls, 1))
	if row.Mean = wholeMS(row.mean); row.Calls == 0 {
		row.Mean = plain("–")
	}

	row.judge()
	if row.Breaker == "" {
		return
	}

	if row.Retry = stampFrom(at, row.next); row.next.Before(at) {
		row.Retry.Ago = say("when a notice for the host is due")
	}
}

// judge sets the state of the receiver. A host without calls or responses is not described as answering.
func (h *hostRow) judge() {
	switch {
	case h.Health.Failing():
		h.Level, h.Says = severities[problems.Gravity(&h.Health, h.At)], say("failing")
	case h.Breaker != "":
		h.Level, h.Says = wrong, say("does not answer")
	case h.Waiting > 0 && h.Slots > 0 && h.InFlight >= h.Slots:
		h.Level, h.Says = mind, say("all slots taken")
	case h.Slowed:
		h.Level, h.Says = mind, say("rate limited by receiver")
	case h.Calls > 0 && h.Failed == h.Calls:
		h.Level, h.Says = mind, say("all calls fail")
	case h.Calls >= problems.FailingLeast && float64(h.Failed) >= problems.FailingShare*float64(h.Calls):
		h.Level, h.Says = mind, say("most calls fail")
	case h.Failed > 0:
		h.Level, h.Says = fine, say("some calls fail")
	case h.Calls == 0 && !h.Health.LastAttempt.IsZero():
		h.Level, h.Says = fine, say("recovered")
	case h.Calls == 0:
		h.Level, h.Says = "", say("no recent calls")
	default:
		h.Level, h.Says = fine, say("answers")
	}
}

// countedLate reports whether the count of waiting notices is so old that pages state its age.
func (h hostRow) countedLate() bool { return h.At.Sub(h.Counted) > problems.CountedLate }

// slots returns the number of slots of the receiver.
func (h hostRow) slots() string {
	switch {
	case h.Unlimited:
		return "∞"
	case h.Slots == 0: // no instance called it lately
		return "–"
	}
	return number(h.Slots)
}

// Path returns the address of the receiver's page.
func (h hostRow) Path() string { return receiverPath(h.Host) }

// limits returns the limits that operators have set; nil without any.
func (h hostRow) limits() text {
	switch {
	case h.LimitRate != "" && h.LimitConcurrency > 0:
		return say("limited to %s and %s concurrent call(s)", h.LimitRate, h.LimitConcurrency)
	case h.LimitRate != "":
		return say("limited to %s", h.LimitRate)
	case h.LimitConcurrency > 0:
		return say("limited to %s concurrent call(s)", h.LimitConcurrency)
	}
	return nil
}

// ErrorRate returns the share of failed calls.
func (h hostRow) ErrorRate() string {
	if h.Calls == 0 {
		return "–"
	}
	return trimmed(100*float64(h.Failed)/float64(h.Calls)) + " %"
}

// anchor returns an id for an element.
func anchor(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, s)
}
