package ui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"notifier/internal/health"
	"notifier/internal/notice"
	"notifier/internal/route"
)

const (
	// mostFailing is the maximum number of failing receivers on the first page.
	mostFailing = 20
	// failingMany failures in a row make a receiver an urgent problem; so does failing for
	// health.FailingLong.
	failingMany = 10
	// countedLate is the age from which the first page and the list of receivers state the age of a count of
	// waiting notices. A receiver's page always does.
	countedLate = 2 * time.Minute
)

// fails reports whether a receiver of a route is failing.
func (b *board) fails(prefix string) bool {
	for i := range b.Health {
		if b.Health[i].Prefix == prefix {
			return b.Health[i].Failing(b.At) > 0
		}
	}
	return false
}

// gravity returns the severity of a failing receiver.
func gravity(r *health.Receiver, now time.Time) level {
	if r.Failures >= failingMany || now.Sub(r.Since) >= health.FailingLong {
		return wrong
	}
	return mind
}

// lastAnswer returns the last response of a receiver: "HTTP 500, 38 in a row".
func lastAnswer(r *health.Receiver) text {
	answer := answerText(r.Status, notice.Reason(r.Reason))
	if r.Failures > 1 {
		return say("%s, %s in a row", answer, r.Failures)
	}

	return answer
}

// answerText returns a response: the HTTP status if it is the failure, else the reason.
func answerText(status int, reason notice.Reason) text {
	switch {
	case reason == "":
		return say("delivered")
	case status > 0 && (status < 200 || status > 299):
		return plain("HTTP " + number(status))
	case status > 0:
		return plain(fmt.Sprintf("HTTP %d, %s", status, reason))
	}
	return plain(string(reason))
}

// receiverMatters adds the failing receivers, many with the same cause as one problem, and the hosts with an open breaker.
func (p *Pages) receiverMatters(b *board, v Visitor, add func(matter)) {
	listed, more := 0, 0
	groups, single := groupsOf(p.hostsOf(b, v, ""))
	for _, g := range groups {
		if listed == mostFailing {
			more += len(g.rows)
			continue
		}

		listed++
		add(p.failingTogether(&g))
	}

	for _, h := range single {
		if listed == mostFailing {
			more++
			continue
		}

		listed++
		if h.Health.Failing() {
			add(p.failingMatter(&h))
			continue
		}

		add(matter{Level: wrong, Title: say("%s does not answer", h.Host),
			Why: say("%s of the last %s call(s) failed. Its notices wait. The receiver gets one call at a time, the next %s.", h.Failed, h.Calls,
				h.Retry.Ago),
			Links: []link{{receiverPath(h.Host), say("View")}, p.waitingLink(&h)}})
	}

	for i := range b.Health {
		if v.Owns(b.Health[i].Prefix) {
			more += b.Health[i].Others
		}
	}

	if more > 0 {
		add(matter{Level: wrong, Title: say("About %s more receiver(s) failing", more),
			Links: []link{{Root + "receivers", say("All receivers")}}})
	}

	if b.HealthErr != nil {
		add(matter{Level: mind, Title: say("Health of receivers unknown"), Why: p.failure(context.Background(), b.HealthErr).text})
	}
}

// manyFailing is the number of receivers from which those of one route with the same last answer are one problem.
const manyFailing = 4

// failingGroup is the failing receivers of a route with the same last answer.
type failingGroup struct {
	rows   []hostRow
	status int
	reason string
}

// groupsOf returns the receivers with problems: groups of failing ones, the largest first, and the others one by one.
func groupsOf(rows []hostRow) (groups []failingGroup, single []hostRow) {
	type id struct {
		prefix, reason string
		status         int
	}

	by := map[id]int{}
	of := func(h *hostRow) id { return id{h.Prefix, h.Health.Reason, h.Health.Status} }
	for i := range rows {
		if rows[i].Health.Failing() {
			by[of(&rows[i])]++
		}
	}

	at := map[id]int{}
	for i := range rows {
		h := &rows[i]
		switch {
		case !h.Health.Failing() && h.Breaker == "":
		case by[of(h)] < manyFailing || !h.Health.Failing():
			single = append(single, *h)
		default:
			n, ok := at[of(h)]
			if !ok {
				n = len(groups)
				at[of(h)], groups = n, append(groups, failingGroup{status: h.Health.Status, reason: h.Health.Reason})
			}

			groups[n].rows = append(groups[n].rows, *h)
		}
	}

	slices.SortStableFunc(groups, func(a, b failingGroup) int { return cmp.Compare(len(b.rows), len(a.rows)) })
	return groups, single
}

// failingTogether describes a group: "member: 600 receivers fail since 03:12, HTTP 200, ack_mismatch".
func (p *Pages) failingTogether(g *failingGroup) matter {
	first, waiting, worst := g.rows[0].Health.Since, 0, mind
	var names []string
	for i := range g.rows {
		h := &g.rows[i]
		waiting += h.Waiting
		if h.Health.Since.Before(first) {
			first = h.Health.Since
		}

		if h.Level == wrong {
			worst = wrong
		}

		if i < 3 {
			names = append(names, h.Host)
		}
	}

	var facts []text
	if waiting > 0 {
		facts = append(facts, say("%s waiting", waiting))
	}

	facts = append(facts, say("first of them: %s", strings.Join(names, ", ")))
	f := receiverFilter{Selection: health.Selection{State: health.StateFailing, Reason: g.reason}, Route: g.rows[0].Route}
	return matter{Level: worst, Facts: facts, Links: []link{{Root + "receivers" + f.query(1), say("Receivers")}},
		Title: say("%s: %s receiver(s) failing since %s, %s", g.rows[0].Route, len(g.rows), clock(p.stamp(first)),
			answerText(g.status, notice.Reason(g.reason)))}
}

// failingMatter describes a failing receiver: "shop.example: failing since 15:10", "HTTP 500, 38 in a row
// · 23 waiting · next attempt 15:41".
func (p *Pages) failingMatter(h *hostRow) matter {
	r := &h.Health
	facts := []text{lastAnswer(r)}
	if r.Waiting > 0 {
		facts = append(facts, say("%s waiting", r.Waiting))
		if h.countedLate() {
			facts = append(facts, say("counted %s", fromNow(h.At, h.Counted)))
		}

		if !r.Next.IsZero() {
			facts = append(facts, say("next attempt %s", clock(p.stamp(r.Next))))
		}
	}

	if r.LastSuccess.IsZero() {
		facts = append(facts, say("no success recorded"))
	}

	if h.Breaker != "" {
		facts = append(facts, say("breaker open, next call %s", h.Retry.Ago))
	}

	facts = append(facts, say("route %s", h.Route))

	links := []link{{receiverPath(h.Host), say("View")}}
	if r.Waiting > 0 {
		links = append(links, p.waitingLink(h))
	}

	return matter{Level: h.Level, Title: say("%s: failing since %s", health.Title(h.Host), clock(p.stamp(r.Since))), Facts: facts,
		Links: links}
}

// waitingLink leads to the notices that wait for a receiver.
func (p *Pages) waitingLink(h *hostRow) link {
	path := noticesPath("route", h.Route, "host", h.Name, "state", string(notice.Scheduled))
	if rt := p.o.Routes.Prefix(h.Prefix); rt != nil && rt.Target.Kind != route.KindNotice {
		path = noticesPath("route", h.Route, "state", string(notice.Scheduled))
	}

	return link{path, say("Waiting notices")}
}

// calm returns the text of a page without problems. It claims only what was checked.
func (p *Pages) calm(b *board, v Visitor) text {
	switch {
	case p.o.Health == nil:
		return say("No notice is late, and no route is paused.")
	case len(b.paused(v.Meets)) > 0: // the page does not show pauses by others
		return say("No notice is late, no receiver's last attempt failed, and no route is paused.")
	}
	return say("No notice is late, no receiver's last attempt failed, and no route or receiver is paused.")
}
