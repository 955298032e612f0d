package problems

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
)

const (
	// mostFailing is the maximum number of problems of receivers.
	mostFailing = 20
	// failingMany failures in a row make a receiver an urgent problem; so does failing for
	// receivers.FailingLong.
	failingMany = 10
	// manyFailing is the number of receivers from which those of one route with the same last answer are one problem.
	manyFailing = 4
	// mostPaused is the maximum number of paused receivers that are named, mostExamples that of failing ones.
	mostPaused, mostExamples = 5, 3
	// CountedLate is the age from which pages state the age of a count of waiting notices. A receiver's page always does.
	CountedLate = 2 * time.Minute
)

// Gravity returns the severity of a failing receiver.
func Gravity(r *receivers.Health, now time.Time) Severity {
	if r.Failures >= failingMany || now.Sub(r.Since) >= receivers.FailingLong {
		return Error
	}
	return Warning
}

// receiver is a receiver of a route with a problem.
type receiver struct {
	receivers.Health
	prefix, route string
	counted       time.Time // when its waiting notices were counted
	broken        bool      // a breaker is open
	retry         time.Time // the next trial call
	calls, failed int64
}

func (r *receiver) cause() notice.Cause {
	return notice.Cause{Reason: notice.Reason(r.Reason), Status: r.Status}
}

// failing returns the receivers within the reader's scope that fail or do not answer, in the order of lists.
func (f *finder) failing() []*receiver {
	by := map[[2]string]*receiver{}
	var list []*receiver
	of := func(prefix, host string) *receiver {
		id := [2]string{prefix, host}
		if by[id] == nil {
			by[id] = &receiver{prefix: prefix, route: f.Routes.NameOf(prefix)}
			by[id].Name = host
			list = append(list, by[id])
		}

		return by[id]
	}

	for i := range f.b.Health {
		rt := &f.b.Health[i]
		for k := 0; f.Reader.Owns(rt.Prefix) && k < len(rt.Receivers); k++ {
			if rt.Receivers[k].Failing() {
				r := of(rt.Prefix, rt.Receivers[k].Name)
				r.Health, r.counted = rt.Receivers[k], rt.Counted
			}
		}
	}

	f.eachHost(func(h *fleet.HostFigures) {
		if h.Breaker != "" {
			r := of(h.Prefix, h.Host)
			r.broken, r.retry = true, time.UnixMilli(h.RetryMS)
		}
	})
	f.eachHost(func(h *fleet.HostFigures) {
		if r := by[[2]string{h.Prefix, h.Host}]; r != nil {
			r.calls, r.failed = r.calls+h.Calls, r.failed+h.Failed
		}
	})

	place := map[*receiver]string{}
	for _, r := range list {
		one := receivers.Listed{Name: r.Name, Tie: r.prefix, Since: r.Since, LastAttempt: r.LastAttempt, Waiting: r.Waiting, Broken: r.broken}
		place[r] = one.Position(f.b.At)
	}

	slices.SortFunc(list, func(a, b *receiver) int { return cmp.Compare(place[a], place[b]) })
	return list
}

// eachHost calls do with the figures of the hosts within the reader's scope, of each instance.
func (f *finder) eachHost(do func(*fleet.HostFigures)) {
	for _, i := range f.b.Instances {
		for k := range i.Figures.Hosts {
			if f.Reader.Owns(i.Figures.Hosts[k].Prefix) {
				do(&i.Figures.Hosts[k])
			}
		}
	}
}

// receivers adds the failing receivers, many with the same cause as one problem, and the hosts with an open breaker.
func (f *finder) receivers() {
	listed, more := 0, 0
	for _, g := range groupsOf(f.failing()) {
		if listed == mostFailing {
			more += len(g)
			continue
		}

		listed++
		switch r := g[0]; {
		case len(g) > 1:
			f.together(g)
		case r.Failing():
			f.alone(r)
		default:
			f.noAnswer(r)
		}
	}

	for i := range f.b.Health {
		if f.Reader.Owns(f.b.Health[i].Prefix) {
			more += f.b.Health[i].Others
		}
	}

	if more > 0 {
		f.add(Problem{Kind: Failing, Severity: Error, Count: int64(more), Hosts: more, Title: say("About %s more receiver(s) failing", more),
			Command: "notifier receivers --state failing", Links: []Link{{Path: Root + "receivers", Text: say("All receivers")}}})
	}

	if f.b.HealthErr != nil {
		f.add(Problem{Kind: Unknown, Severity: Warning, Title: say("Health of receivers unknown"), Why: f.Explain(f.b.HealthErr)})
	}
}

// groupsOf returns the receivers with problems: groups of failing ones with the same last answer, the largest first, and the others
// one by one.
func groupsOf(list []*receiver) [][]*receiver {
	type id struct {
		prefix string
		cause  notice.Cause
	}

	by := map[id][]*receiver{}
	for _, r := range list {
		if r.Failing() {
			by[id{r.prefix, r.cause()}] = append(by[id{r.prefix, r.cause()}], r)
		}
	}

	var groups, single [][]*receiver
	for _, r := range list {
		g := by[id{r.prefix, r.cause()}]
		switch {
		case !r.Failing() || len(g) < manyFailing:
			single = append(single, []*receiver{r})
		case g[0] == r:
			groups = append(groups, g)
		}
	}

	slices.SortStableFunc(groups, func(a, b []*receiver) int { return cmp.Compare(len(b), len(a)) })
	return append(groups, single...)
}

// together adds a group: "member: 600 receivers failing since 03:12, HTTP 200, ack_mismatch".
func (f *finder) together(g []*receiver) {
	p := Problem{Kind: Failing, Severity: Warning, Route: g[0].route, Prefix: g[0].prefix, Cause: g[0].cause(), Count: int64(len(g)),
		Hosts: len(g), Since: g[0].Since}
	waiting, names := 0, []string{}
	for _, r := range g {
		waiting += r.Waiting
		if r.Since.Before(p.Since) {
			p.Since = r.Since
		}

		if r.LastAttempt.After(p.Last) {
			p.Last = r.LastAttempt
		}

		if Gravity(&r.Health, f.b.HealthAt) == Error {
			p.Severity = Error
		}

		if len(p.Examples) < mostExamples {
			p.Examples, names = append(p.Examples, r.Name), append(names, receivers.Title(r.Name))
		}
	}

	p.Title = say("%s: %s receiver(s) failing since %s, %s", p.Route, len(g), f.moment(p.Since), AnswerText(p.Cause))
	if waiting > 0 {
		p.Facts = append(p.Facts, say("%s waiting", waiting))
	}

	p.Facts = append(p.Facts, say("first of them: %s", strings.Join(names, ", ")))
	p.Links = []Link{{Path: ReceiversPath(p.Route, receivers.Selection{State: receivers.StateFailing, Reason: g[0].Reason}),
		Text: say("Receivers")}}
	p.Command = "notifier receivers --state failing --route " + p.Route
	if p.Reason != "" {
		p.Command += " --reason " + string(p.Reason)
	}

	f.compare(&p, g)
	f.add(p)
}

// alone adds a failing receiver: "shop.example: failing since 15:10", "HTTP 500, 38 in a row · 23 waiting · next attempt 15:41".
func (f *finder) alone(r *receiver) {
	facts := []Text{LastAnswer(&r.Health)}
	if r.Waiting > 0 {
		facts = append(facts, say("%s waiting", r.Waiting))
		if f.b.HealthAt.Sub(r.counted) > CountedLate {
			facts = append(facts, say("counted %s", Until(r.counted.Sub(f.b.HealthAt))))
		}

		switch {
		case f.b.Stopped(r.prefix, r.Name):
			facts = append(facts, say("next attempt when it resumes"))
		case !r.Next.IsZero():
			facts = append(facts, say("next attempt %s", f.moment(r.Next)))
		}
	}

	if none := NoSuccess(&r.Health, f.b.At); none != nil {
		facts = append(facts, none)
	}

	if r.broken {
		facts = append(facts, say("breaker open, next call %s", f.retry(r)))
	}

	facts = append(facts, say("route %s", r.route))
	links := []Link{{Path: ReceiverPath(r.Name), Text: say("View")}}
	if r.Waiting > 0 {
		links = append(links, f.waiting(r))
	}

	p := Problem{Kind: Failing, Severity: Gravity(&r.Health, f.b.HealthAt), Route: r.route, Prefix: r.prefix, Cause: r.cause(), Count: 1,
		Hosts: 1, Since: r.Since, Last: r.LastAttempt, Examples: []string{r.Name}, Facts: facts, Links: links, Command: hostCommand(r),
		Title: say("%s: failing since %s", receivers.Title(r.Name), f.moment(r.Since))}
	f.compare(&p, []*receiver{r})
	f.add(p)
}

// noAnswer adds a host with an open breaker.
func (f *finder) noAnswer(r *receiver) {
	f.add(Problem{Kind: NoAnswer, Severity: Error, Route: r.route, Prefix: r.prefix, Hosts: 1, Count: 1, Examples: []string{r.Name},
		Title: say("%s does not answer", r.Name), Command: hostCommand(r),
		Why: say("%s of the last %s call(s) failed. Its notices wait. The receiver gets one call at a time, the next %s.", r.failed, r.calls,
			f.retry(r)),
		Links: []Link{{Path: ReceiverPath(r.Name), Text: say("View")}, f.waiting(r)}})
}

func hostCommand(r *receiver) string {
	if _, err := notice.HostPort(r.Name); err != nil {
		return "notifier receivers --state failing --route " + r.route // a list or stream
	}
	return "notifier receivers --host " + r.Name
}

// retry returns when a receiver with an open breaker gets the next call.
func (f *finder) retry(r *receiver) Text {
	if r.retry.Before(f.b.InstancesAt) {
		return say("when a notice for the host is due")
	}
	return Plain(Until(r.retry.Sub(f.b.InstancesAt)))
}

// waiting leads to the notices that wait for a receiver.
func (f *finder) waiting(r *receiver) Link {
	rt := f.Routes.Prefix(r.prefix)
	return Link{Path: WaitingPath(rt, r.route, receivers.Host(r.Name)), Text: say("Waiting notices")}
}

// WaitingPath returns the address of the notices of a route that wait for a host. rt is nil for a prefix without a route.
func WaitingPath(rt *route.Route, name, host string) string {
	if rt != nil && rt.Target.Kind != route.KindNotice {
		return NoticesPath("route", name, "state", string(notice.Scheduled))
	}
	return NoticesPath("route", name, "host", host, "state", string(notice.Scheduled))
}

// pauses adds the paused receivers that the reader may see, because someone may have forgotten to resume them.
func (f *finder) pauses() {
	toList := []Link{{Path: Root + "receivers", Text: say("Receivers")}}
	const command = "notifier receivers --state paused"
	if f.b.HoldsErr != nil {
		f.add(Problem{Kind: Unknown, Severity: Warning, Title: say("Paused receivers unknown or outdated"), Why: f.Explain(f.b.HoldsErr),
			Links: toList, Command: command})
	}

	list := f.b.Paused(f.Reader.Owns)
	if len(list) == 0 {
		return
	}

	p := Problem{Kind: Paused, Severity: Warning, Count: int64(len(list)), Title: say("%s receiver(s) paused", len(list)), Links: toList,
		Why: say("No attempt is made until the pause ends."), Command: command}
	if held, counted := f.b.HeldBy(list); counted {
		p.Why = say("%s %s", p.Why, say("%s due notice(s) held.", held))
	}

	for _, pause := range list[:min(len(list), mostPaused)] {
		p.Facts = append(p.Facts, f.pause(pause))
		p.Examples = append(p.Examples, cmp.Or(pause.Host, pause.Audience))
	}

	if more := len(list) - mostPaused; more > 0 {
		p.Facts = append(p.Facts, say("%s more", more))
	}

	f.add(p)
}

// pause names a paused receiver: "shop.example under app1:orders until 15:30".
func (f *finder) pause(pause *receivers.Pause) Text {
	t := Plain(pause.Host)
	switch {
	case pause.Host == "":
		t = say("audience `%s`", pause.Audience)
	case pause.Audience != "":
		t = say("%s, audience `%s`", t, pause.Audience)
	}

	if pause.Prefix != "" {
		t = say("%s under `%s`", t, pause.Prefix)
	}

	if pause.Rule != "" {
		t = say("%s by rule `%s`", t, pause.Rule)
	}

	if !pause.Until.IsZero() {
		t = say("%s until %s", t, f.moment(pause.Until))
	}

	return t
}
