package ui

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"notifier/internal/access"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// matter is something that an operator should know of: what is late, whose fault
// it is, and what to press.
type matter struct {
	Level  level
	Title  string
	Since  stamp // since when; told after the title
	Why    string
	Facts  []fact // told after Why
	Links  []link
	Resume string // the name of a route that can be resumed from here
	CSRF   string
}

// fact is a short text, and a time that it tells of.
type fact struct {
	Text string
	At   stamp
}

type link struct{ Path, Text string }

// lateFrom is from when a notice that nobody has claimed counts as late here. A
// few milliseconds are the rule.
const lateFrom = 2 * time.Second

// failingShare is the share of attempts that fail from which on a route is spoken of,
// once it has made a few.
const (
	failingShare = 0.5
	failingLeast = 5
)

// lateBy is how late the latest notice of a route is that nobody has claimed.
func (p *Pages) lateBy(b *board, c store.Counts) time.Duration {
	if c.Overdue == 0 || c.NextDue.IsZero() {
		return 0
	}
	return b.CountsAt.Sub(c.NextDue)
}

// matters are what is the matter with what a visitor sees, the worst first.
func (p *Pages) matters(b *board, list []store.Counts, v Visitor) []matter {
	var out []matter
	add := func(m matter) {
		m.CSRF = v.CSRF
		out = append(out, m)
	}
	if v.All() {
		p.serviceMatters(b, add)
	}
	for _, c := range list {
		p.routeMatters(b, c, v, add)
	}
	p.receiverMatters(b, v, add)
	if v.All() {
		p.setupMatter(add)
	}
	slices.SortStableFunc(out, func(a, b matter) int { return rank(b.Level) - rank(a.Level) })
	return out
}

func rank(l level) int {
	return map[level]int{fine: 0, mind: 1, wrong: 2}[l]
}

func (p *Pages) serviceMatters(b *board, add func(matter)) {
	if b.Err == nil && !b.Ready.Ready {
		add(matter{Level: wrong, Title: "This instance is not ready", Why: sentence(b.Ready.Reasons)})
	} else if b.Err == nil && b.Ready.Degraded {
		add(matter{Level: mind, Title: "This instance is degraded", Why: sentence(b.Ready.Reasons), Links: []link{{Root + "doctor", "Doctor"}}})
	}
	for _, i := range b.Instances {
		if i.State == fleet.Silent {
			add(matter{Level: mind, Title: fmt.Sprintf("Instance %s is unresponsive", i.Label),
				Why: fmt.Sprintf("Its last heartbeat was %s. Other instances reclaim its claims once its connections are closed.", ago(b.At, i.Seen))})
		}
	}
}

// setupMatter speaks of the worst that doctor finds.
func (p *Pages) setupMatter(add func(matter)) {
	found, _ := p.examiner.troubles()
	if len(found) == 0 {
		return
	}
	worst := slices.MaxFunc(found, func(a, b findingRow) int { return rank(a.Level) - rank(b.Level) })
	add(matter{Level: worst.Level, Title: "Redis is misconfigured", Why: worst.Message, Links: []link{{Root + "doctor", "Doctor's findings"}}})
}

func sentence(list []string) string {
	out := ""
	for i, s := range list {
		if i > 0 {
			out += "; "
		}
		out += s
	}
	return out
}

func (p *Pages) routeMatters(b *board, c store.Counts, v Visitor, add func(matter)) {
	name := p.routeName(c.Prefix)
	overdue := link{noticesPath("route", name, "state", "scheduled", "until", "now"), "Overdue notices"}
	late := p.lateBy(b, c)
	rt := p.o.Routes.Prefix(c.Prefix)
	switch {
	case rt == nil:
		if c.Pending > 0 {
			add(matter{Level: wrong, Title: fmt.Sprintf("%s under %s, which no route covers", plural(c.Pending, "notice"), c.Prefix),
				Why: "Nobody delivers them. Give the prefix a route again, or cancel them.", Links: []link{{noticesPath("route", c.Prefix), "Notices"}}})
		}
		return
	case c.Paused:
		m := matter{Level: mind, Title: name + " is paused", Why: "Nothing of it is due yet.", Links: []link{overdue}}
		if c.Overdue > 0 {
			m.Level, m.Why = wrong, fmt.Sprintf("%s for it, the first for %s.", wait(c.Overdue), rough(late))
		}
		if v.May(access.Operate) {
			m.Resume = name
		}
		add(m)
	case late >= lateFrom:
		why := "It may be a backlog that is being worked off, or a receiver that is slow."
		if n, slots := b.inFlight(c.Prefix), rt.Slots()*max(1, b.living()); slots > 0 && n >= slots {
			why = fmt.Sprintf("All %d slots of the route are taken: its receivers are slow, or there is more to do than it may do at a time.", slots)
		} else if b.living() == 0 {
			why = "No instance publishes heartbeats."
		}
		add(matter{Level: wrong, Title: fmt.Sprintf("%s is late: %s, the first for %s", name, wait(c.Overdue), rough(late)), Why: why,
			Links: []link{overdue, {Root + "receivers", "Receivers"}}})
	}
	w := b.work(c.Prefix, 1, b.At)
	if failed, made := w.Outcomes[notice.OutcomeRetry]+w.Outcomes[notice.OutcomeDead], w.Attempts(); !b.fails(c.Prefix) && made >= failingLeast && float64(failed) >= failingShare*float64(made) {
		add(matter{Level: mind, Title: fmt.Sprintf("Most attempts of %s fail", name), Why: fmt.Sprintf("%s of %s in the last minutes.", number(failed), number(made)),
			Links: []link{{Root + "receivers", "Receivers"}}})
	}
	died := int64(0)
	for _, m := range b.hour([]string{c.Prefix}, b.At) {
		died += m.Outcomes[notice.OutcomeDead]
	}
	if died > 0 && c.Dead > 0 {
		add(matter{Level: mind, Title: fmt.Sprintf("%s of %s in the last hour", plural(died, "notice")+" died", name), Why: fmt.Sprintf("%s altogether.", plural(c.Dead, "dead letter")),
			Links: []link{{deadPath(name), "Dead letters by reason"}}})
	}
}

func wait(n int64) string {
	if n == 1 {
		return "1 notice waits"
	}
	return number(n) + " notices wait"
}

// living is how many instances take new work.
func (b *board) living() int {
	n := 0
	for _, i := range b.Instances {
		if i.State == fleet.Living {
			n++
		}
	}
	return n
}

// routeName is the name of the route of a prefix, or the prefix.
func (p *Pages) routeName(prefix string) string {
	if rt := p.o.Routes.Prefix(prefix); rt != nil {
		return rt.Name
	}
	return prefix
}

// noticesPath leads to a search, by names and values in turn.
func noticesPath(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return Root + "notices?" + q.Encode()
}

func deadPath(route string) string { return Root + "dead?" + url.Values{"route": {route}}.Encode() }
