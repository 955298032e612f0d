package problems

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"notifier/internal/auth"
	"notifier/internal/doctor"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// LateFrom is the lateness from which an unclaimed notice counts as late. A few milliseconds are normal.
const LateFrom = 2 * time.Second

// A route or a receiver fails if FailingShare of at least FailingLeast attempts failed.
const (
	FailingShare = 0.5
	FailingLeast = 5
)

// mostDeaths is the maximum number of causes of a route's deaths with separate problems.
const mostDeaths = 3

// Options are the parameters of Find.
type Options struct {
	Board  *Board
	Routes *route.Table
	// Reader sees the problems of its prefix only.
	Reader auth.Caller
	// Findings are the warnings and errors of doctor.
	Findings []doctor.Finding
	// Explain returns an error as the reader may see it.
	Explain func(error) Text
}

// finder collects problems.
type finder struct {
	Options
	b    *Board
	list []Problem
}

// Find returns the problems that the reader may see, the worst first.
func Find(o Options) []Problem {
	f := &finder{Options: o, b: o.Board}
	all := o.Reader.Prefix == ""
	if all {
		f.service()
	}

	counts, _ := RoutesOf(o.Board, o.Routes, o.Reader)
	f.deaths(counts)
	for _, c := range counts {
		f.route(c)
	}

	f.disabled()
	f.receivers()
	f.pauses()
	if all {
		f.setup()
	}

	worstFirst(f.list)
	return f.list
}

// RoutesOf returns the counts of routes within the reader's scope, in the order of the configuration,
// then of prefixes without a route. shared counts the routes that the reader sees only in part.
func RoutesOf(b *Board, routes *route.Table, reader auth.Caller) (list []store.Counts, shared int) {
	by := map[string]store.Counts{}
	for _, c := range b.Counts {
		by[c.Prefix] = c
	}

	for _, rt := range routes.All() {
		c := by[rt.Prefix]
		c.Prefix = rt.Prefix
		delete(by, rt.Prefix)
		if reader.Owns(rt.Prefix) {
			list = append(list, c)
		} else if reader.Meets(rt.Prefix) {
			shared++
		}
	}

	for _, c := range b.Counts {
		if _, left := by[c.Prefix]; left && reader.Owns(c.Prefix) {
			list = append(list, c)
		}
	}

	return list, shared
}

func (f *finder) add(p Problem) { f.list = append(f.list, p) }

func (f *finder) moment(t time.Time) Moment { return Moment{At: t, Now: f.b.At} }

// service adds the problems of the instances and of Redis.
func (f *finder) service() {
	checks := []Link{{Path: Root + "doctor", Text: say("Doctor")}}
	if why, by := f.b.Full(); why != "" {
		f.add(Problem{Kind: RedisFull, Severity: Error, Title: say("Redis is full: new notices are refused"), Quoted: why, Examples: by,
			Why:   say("Stored notices are still delivered. Reported by: %s.", strings.Join(by, ", ")),
			Links: checks, Command: "redis-cli config set maxmemory BYTES"})
	}

	if f.b.Err == nil {
		f.readiness(f.b.Ready, checks)
	}

	for _, i := range f.b.Instances {
		if i.State == fleet.Unresponsive {
			f.add(Problem{Kind: UnresponsiveMember, Severity: Warning, Last: i.Seen, Examples: []string{i.Label},
				Title: say("Instance %s is unresponsive", i.Label), Command: "notifier instances",
				Why: say("The last heartbeat was %s. Other instances reclaim the instance's claims once its connections are closed.",
					Until(i.Seen.Sub(f.b.InstancesAt)))})
		}
	}
}

func (f *finder) readiness(r fleet.Readiness, checks []Link) {
	const command = "notifier doctor"
	if !r.Ready {
		f.add(Problem{Kind: NotReady, Severity: Error, Title: say("This instance is not ready"), Quoted: strings.Join(r.Reasons, "; "),
			Links: checks, Command: command})
	}

	for _, c := range r.Degraded {
		p := Problem{Kind: Degraded, Severity: Warning, Title: say("This instance is degraded"), Quoted: c.Reason, Links: checks,
			Command: command}
		if c.Urgent {
			p.Kind, p.Severity, p.Title = Lost, Error, say("Notices are lost or not delivered")
		}

		if !c.Full { // service has added it
			f.add(p)
		}
	}
}

// setup adds the worst finding of doctor, without those that are a problem already.
func (f *finder) setup() {
	found := slices.DeleteFunc(slices.Clone(f.Findings), ofWorkers)
	if why, _ := f.b.Full(); why != "" {
		found = slices.DeleteFunc(found, func(x doctor.Finding) bool { return x.Check == "memory" })
	}

	if len(found) == 0 {
		return
	}

	worst := found[0]
	if i := slices.IndexFunc(found, func(x doctor.Finding) bool { return x.Severity == doctor.Error }); i >= 0 {
		worst = found[i]
	}

	p := Problem{Kind: Setup, Severity: Warning, Title: say("Redis is misconfigured"), Quoted: worst.Message, Command: "notifier doctor",
		Links: []Link{{Path: Root + "doctor", Text: say("Findings")}}}
	if worst.Severity == doctor.Error {
		p.Severity = Error
	}

	if worst.Check == doctor.MachineCheck {
		p.Title = say("A limit of this machine is too low")
	}

	f.add(p)
}

// LateBy returns the lateness of the oldest unclaimed notice of a route.
func LateBy(b *Board, c store.Counts) time.Duration {
	if c.Overdue == 0 || c.NextDue.IsZero() {
		return 0
	}
	return b.CountsAt.Sub(c.NextDue)
}

// Late reports whether notices of a route wait longer than normal.
func Late(b *Board, c store.Counts) bool { return LateBy(b, c) >= LateFrom }

// route adds the problems of a route.
func (f *finder) route(c store.Counts) {
	rt, name := f.Routes.Prefix(c.Prefix), f.Routes.NameOf(c.Prefix)
	if rt == nil {
		if c.Pending > 0 {
			f.add(Problem{Kind: Unrouted, Severity: Error, Route: name, Prefix: c.Prefix, Count: c.Pending,
				Title:   say("%s notice(s) under `%s`, which no route covers", c.Pending, c.Prefix),
				Why:     say("No instance delivers them. Configure a route for the prefix, or cancel them."),
				Command: "notifier list --prefix " + c.Prefix, Links: []Link{{Path: NoticesPath("route", c.Prefix), Text: say("Notices")}}})
		}
		return
	}

	switch {
	case c.Paused:
		f.pausedRoute(c, name)
	case f.unhandled(c):
	case Late(f.b, c):
		f.late(c, rt)
	}

	f.resources(c.Prefix, name)
	w := f.b.Work(c.Prefix, 1, f.b.At)
	failed, made := w.Outcomes[notice.OutcomeRetry]+w.Outcomes[notice.OutcomeDead], w.Attempts()
	if !f.b.Fails(c.Prefix) && made >= FailingLeast && float64(failed) >= FailingShare*float64(made) {
		f.add(Problem{Kind: AttemptsFail, Severity: Warning, Route: name, Prefix: c.Prefix, Count: failed,
			Title: say("Most attempts of %s fail", name), Why: say("%s of %s in the last minutes.", failed, made),
			Command: "notifier receivers --route " + name, Links: []Link{{Path: Root + "receivers", Text: say("Receivers")}}})
	}
}

func overdueLink(name string) Link {
	return Link{Path: NoticesPath("route", name, "state", "scheduled", "until", "now"), Text: say("Overdue notices")}
}

func (f *finder) pausedRoute(c store.Counts, name string) {
	p := Problem{Kind: RoutePaused, Severity: Warning, Route: name, Prefix: c.Prefix, Title: say("%s is paused", name),
		Why: say("No notice of the route is due yet."), Resume: true, Command: "notifier resume " + name,
		Links: []Link{{Path: NoticesPath("route", name), Text: say("Notices")}}}
	if c.Overdue > 0 {
		p.Severity, p.Links, p.Count, p.Since = Error, []Link{overdueLink(name)}, c.Overdue, c.NextDue
		p.Why = say("%s notice(s) waiting, the oldest for %s.", c.Overdue, LateBy(f.b, c))
	}

	f.add(p)
}

func (f *finder) late(c store.Counts, rt *route.Route) {
	why := say("Possible causes: a backlog that is being delivered, or a slow receiver.")
	if n, slots := f.b.InFlight(c.Prefix), rt.Slots()*max(1, f.b.Alive()); slots > 0 && n >= slots {
		why = say("All %s slots of the route are taken: its receivers are slow, or its concurrency is too low.", slots)
	} else if f.b.Alive() == 0 {
		why = say("No instance publishes heartbeats.")
	}

	f.add(Problem{Kind: Overdue, Severity: Error, Route: rt.Name, Prefix: c.Prefix, Count: c.Overdue, Since: c.NextDue, Why: why,
		Title:   say("%s is late: %s notice(s) waiting, the oldest for %s", rt.Name, c.Overdue, LateBy(f.b, c)),
		Command: "notifier receivers --route " + rt.Name,
		Links:   []Link{overdueLink(rt.Name), {Path: Root + "receivers", Text: say("Receivers")}}})
}

// resources adds the notices of a route that instances defer because their machine lacks a resource.
func (f *finder) resources(prefix, name string) {
	waiting, labels := int64(0), []string{}
	for _, i := range f.b.Instances {
		if n := i.Figures.Routes[prefix].Waiting[notice.HeldLocal]; n > 0 {
			waiting += int64(n)
			labels = append(labels, i.Label)
		}
	}

	if waiting > 0 {
		f.add(Problem{Kind: Resources, Severity: Error, Route: name, Prefix: prefix, Count: waiting, Examples: labels,
			Title: say("%s notice(s) of %s wait for resources of the service", waiting, name),
			Why: say("The machine of %s lacks a resource. The log of the instance and its page Doctor name the remedy. No attempt is used.",
				strings.Join(labels, ", ")),
			Command: "notifier doctor",
			Links:   []Link{{Path: NoticesPath("route", name, "state", "scheduled"), Text: say("Notices")}}})
	}
}

// deaths adds the causes of the deaths within the last hour, the most frequent first.
func (f *finder) deaths(counts []store.Counts) {
	owned := map[string]bool{}
	for _, c := range counts {
		owned[c.Prefix] = true
	}

	groups := slices.Clone(f.b.Deaths)
	slices.SortStableFunc(groups, func(a, b store.DeadGroup) int { return cmp.Compare(b.Count, a.Count) })
	named, rest := map[string]int{}, map[string]int64{}
	var more []string
	for _, d := range groups {
		switch {
		case !owned[d.Prefix]:
		case named[d.Prefix] < mostDeaths:
			named[d.Prefix]++
			f.died(d)
		case rest[d.Prefix] == 0:
			more = append(more, d.Prefix)
			rest[d.Prefix] += d.Count
		default:
			rest[d.Prefix] += d.Count
		}
	}

	for _, prefix := range more {
		name := f.Routes.NameOf(prefix)
		f.add(Problem{Kind: Dead, Severity: Error, Route: name, Prefix: prefix, Count: rest[prefix],
			Title:   say("%s: %s more dead letter(s) in the last hour, of other causes", name, rest[prefix]),
			Command: "notifier dead --route " + name, Links: []Link{{Path: DeadPath(name), Text: say("Dead letters")}}})
	}
}

// died adds the deaths of one cause.
func (f *finder) died(d store.DeadGroup) {
	name, view := f.Routes.NameOf(d.Prefix), say("View")
	command := "notifier list --state dead --route " + name + causeFlags(d.Cause)
	if f.Reader.Role.Includes(auth.Operate) && d.Cause.Reason != notice.ReasonExpired { // a redrive of many skips expired notices
		view, command = say("View and redrive"), "notifier redrive --route "+name+causeFlags(d.Cause)+" --rate 100/s"
	}

	f.add(Problem{Kind: Dead, Severity: Error, Route: name, Prefix: d.Prefix, Cause: d.Cause, Count: d.Count, Since: d.First,
		Last:    d.Last,
		Title:   say("%s: %s dead letter(s) in the last hour, %s", name, d.Count, CauseText(d.Cause)),
		Facts:   []Text{say("since %s", f.moment(d.First)), say("last %s", f.moment(d.Last))},
		Command: command, Links: []Link{{Path: GroupPath(name, d.Cause), Text: view}}})
}
