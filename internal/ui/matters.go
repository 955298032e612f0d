package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"notifier/internal/access"
	"notifier/internal/doctor"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/stats"
	"notifier/internal/store"
)

// matter is a problem: what is late or failing, the cause, and the actions.
type matter struct {
	Level  level
	Title  text
	Why    text
	Quoted string // a text in English, of doctor or of the log
	Facts  []text
	Links  []link
	Resume string // the name of a route that can be resumed from here
	CSRF   string
}

type link struct {
	Path string
	Text text
}

// lateFrom is the lateness from which an unclaimed notice counts as late. A few milliseconds are normal.
const lateFrom = 2 * time.Second

// failingShare is the share of failed attempts from which a route is a problem, after failingLeast
// attempts.
const (
	failingShare = 0.5
	failingLeast = 5
)

// lateBy returns the lateness of the oldest unclaimed notice of a route.
func (p *Pages) lateBy(b *board, c store.Counts) time.Duration {
	if c.Overdue == 0 || c.NextDue.IsZero() {
		return 0
	}
	return b.CountsAt.Sub(c.NextDue)
}

// matters returns the problems within the visitor's scope, worst first.
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
		p.deathMatters(b, c.Prefix, v, add)
	}

	p.receiverMatters(b, v, add)
	p.pauseMatter(b, v, add)
	if v.All() {
		p.setupMatter(b, add)
	}

	slices.SortStableFunc(out, func(a, b matter) int { return rank(b.Level) - rank(a.Level) })
	return out
}

func rank(l level) int {
	return map[level]int{fine: 0, mind: 1, wrong: 2}[l]
}

func (p *Pages) serviceMatters(b *board, add func(matter)) {
	b.fullMatter(add)
	if b.Err == nil {
		readyMatters(b.Ready, add)
	}

	for _, i := range b.Instances {
		if i.State == fleet.Unresponsive {
			add(matter{Level: mind, Title: say("Instance %s is unresponsive", i.Label),
				Why: say("The last heartbeat was %s. Other instances reclaim the instance's claims once its connections are closed.",
					fromNow(b.InstancesAt, i.Seen))})
		}
	}
}

// full returns why Redis is full, and the instances that report it; empty = none does.
func (b *board) full() (why string, by []string) {
	own := ""
	for _, c := range b.Ready.Degraded {
		if c.Full {
			own = c.Reason
		}
	}

	for _, i := range b.Instances {
		text := i.Figures.Full
		if i.Self {
			text = own // newer than the heartbeat
		}

		if text != "" && i.State != fleet.Unresponsive {
			why, by = text, append(by, i.Label)
		}
	}

	return cmp.Or(own, why), by
}

// fullMatter adds that Redis is full.
func (b *board) fullMatter(add func(matter)) {
	if why, by := b.full(); why != "" {
		add(matter{Level: wrong, Title: say("Redis is full: new notices are refused"), Quoted: why,
			Why:   say("Stored notices are still delivered. Reported by: %s.", strings.Join(by, ", ")),
			Links: []link{{Root + "doctor", say("Doctor")}}})
	}
}

func readyMatters(r stats.Readiness, add func(matter)) {
	checks := []link{{Root + "doctor", say("Doctor")}}
	if !r.Ready {
		add(matter{Level: wrong, Title: say("This instance is not ready"), Quoted: strings.Join(r.Reasons, "; "), Links: checks})
	}

	for _, c := range r.Degraded {
		if c.Full {
			continue // fullMatter
		}

		m := matter{Level: mind, Title: say("This instance is degraded"), Quoted: c.Reason, Links: checks}
		if c.Urgent {
			m.Level, m.Title = wrong, say("Notices are lost or not delivered")
		}

		add(m)
	}
}

// setupMatter adds the worst finding of doctor, but not that Redis is full twice.
func (p *Pages) setupMatter(b *board, add func(matter)) {
	found, _ := p.examiner.troubles()
	if why, _ := b.full(); why != "" {
		found = slices.DeleteFunc(found, func(f findingRow) bool { return f.Check == "memory" })
	}

	if len(found) == 0 {
		return
	}

	worst := slices.MaxFunc(found, func(a, b findingRow) int { return rank(a.Level) - rank(b.Level) })
	title := say("Redis is misconfigured")
	if worst.Check == doctor.MachineCheck {
		title = say("A limit of this machine is too low")
	}

	add(matter{Level: worst.Level, Title: title, Quoted: worst.Message,
		Links: []link{{Root + "doctor", say("Findings")}}})
}

func (p *Pages) routeMatters(b *board, c store.Counts, v Visitor, add func(matter)) {
	name := p.routeName(c.Prefix)
	overdue := link{noticesPath("route", name, "state", "scheduled", "until", "now"), say("Overdue notices")}
	late := p.lateBy(b, c)
	rt := p.o.Routes.Prefix(c.Prefix)
	switch {
	case rt == nil:
		if c.Pending > 0 {
			add(matter{Level: wrong, Title: say("%s notice(s) under `%s`, which no route covers", c.Pending, c.Prefix),
				Why:   say("No instance delivers them. Configure a route for the prefix, or cancel them."),
				Links: []link{{noticesPath("route", c.Prefix), say("Notices")}}})
		}
		return
	case c.Paused:
		m := matter{Level: mind, Title: say("%s is paused", name), Why: say("No notice of the route is due yet."),
			Links: []link{{noticesPath("route", name), say("Notices")}}}
		if c.Overdue > 0 {
			m.Level, m.Links = wrong, []link{overdue}
			m.Why = say("%s notice(s) waiting, the oldest for %s.", c.Overdue, late)
		}

		if v.May(access.Operate) {
			m.Resume = name
		}

		add(m)
	case late >= lateFrom:
		why := say("Possible causes: a backlog that is being delivered, or a slow receiver.")
		if n, slots := b.inFlight(c.Prefix), rt.Slots()*max(1, b.living()); slots > 0 && n >= slots {
			why = say("All %s slots of the route are taken: its receivers are slow, or its concurrency is too low.", slots)
		} else if b.living() == 0 {
			why = say("No instance publishes heartbeats.")
		}

		add(matter{Level: wrong, Title: say("%s is late: %s notice(s) waiting, the oldest for %s", name, c.Overdue, late), Why: why,
			Links: []link{overdue, {Root + "receivers", say("Receivers")}}})
	}

	p.localMatter(b, c.Prefix, name, add)
	w := b.work(c.Prefix, 1, b.At)
	failed, made := w.Outcomes[notice.OutcomeRetry]+w.Outcomes[notice.OutcomeDead], w.Attempts()
	if !b.fails(c.Prefix) && made >= failingLeast && float64(failed) >= failingShare*float64(made) {
		add(matter{Level: mind, Title: say("Most attempts of %s fail", name), Why: say("%s of %s in the last minutes.", failed, made),
			Links: []link{{Root + "receivers", say("Receivers")}}})
	}

}

// mostDeaths is the maximum number of causes of a route's deaths that the first page names.
const mostDeaths = 3

// deathMatters adds the causes of the deaths of a route within the last hour, the most frequent first.
func (p *Pages) deathMatters(b *board, prefix string, v Visitor, add func(matter)) {
	name, named, left := p.routeName(prefix), 0, int64(0)
	for _, d := range b.Deaths {
		switch {
		case d.Prefix != prefix:
			continue
		case named == mostDeaths:
			left += d.Count
			continue
		}

		named++
		g := group{Route: name, Prefix: prefix, Cause: d.Cause, AnyHost: true}
		view := say("View")
		if v.May(access.Operate) {
			view = say("View and redrive")
		}

		add(matter{Level: wrong, Title: say("%s: %s dead letter(s) in the last hour, %s", name, d.Count, v.why(g)),
			Facts: []text{say("since %s", clock(p.stamp(d.First))), say("last %s", clock(p.stamp(d.Last)))},
			Links: []link{{Root + "dead/group?" + g.values().Encode(), view}}})
	}

	if left > 0 {
		add(matter{Level: wrong, Title: say("%s: %s more dead letter(s) in the last hour, of other causes", name, left),
			Links: []link{{deadPath(name), say("Dead letters")}}})
	}
}

// localMatter adds the notices of a route that instances defer because their machine lacks a resource.
func (p *Pages) localMatter(b *board, prefix, name string, add func(matter)) {
	waiting, labels := 0, []string{}
	for _, i := range b.Instances {
		if n := i.Figures.Routes[prefix].Waiting[notice.HeldLocal]; n > 0 {
			waiting += n
			labels = append(labels, i.Label)
		}
	}

	if waiting > 0 {
		add(matter{Level: wrong, Title: say("%s notice(s) of %s wait for resources of the service", waiting, name),
			Why: say("The machine of %s lacks a resource. The log of the instance and its page Doctor name the remedy. No attempt is used.",
				strings.Join(labels, ", ")),
			Links: []link{{noticesPath("route", name, "state", "scheduled"), say("Notices")}}})
	}
}

// living counts the instances that take new work.
func (b *board) living() int {
	n := 0
	for _, i := range b.Instances {
		if i.State == fleet.Alive {
			n++
		}
	}

	return n
}

// routeName returns the name of the route of a prefix, or the prefix.
func (p *Pages) routeName(prefix string) string {
	return p.o.Routes.NameOf(prefix)
}

// routeFor returns the route of a prefix as a visitor sees it: visitors with a portal link see the prefix.
func (p *Pages) routeFor(prefix string, v Visitor) string {
	if v.Linked() {
		return prefix
	}
	return p.routeName(prefix)
}
