package ui

import (
	"context"
	"fmt"
	"strings"
	"time"

	"notifier/internal/health"
	"notifier/internal/notice"
	"notifier/internal/route"
)

const (
	// mostFailing is how many failing receivers the first page lists.
	mostFailing = 20
	// failingMany failures in a row make a receiver a problem that an operator
	// must act on now; so does failing for health.FailingLong.
	failingMany = 10
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

// gravity is how bad it is that a receiver fails.
func gravity(r *health.Receiver, now time.Time) level {
	if r.Failures >= failingMany || now.Sub(r.Since) >= health.FailingLong {
		return wrong
	}
	return mind
}

// lastAnswer says what a receiver answered last: "HTTP 500, 38 in a row".
func lastAnswer(r *health.Receiver) string {
	text := answerText(r.Status, notice.Reason(r.Reason))
	if r.Failures > 1 {
		text += ", " + number(r.Failures) + " in a row"
	}
	return text
}

// answerText is an answer in a few words: the status of HTTP if it is what failed, else the
// reason.
func answerText(status int, reason notice.Reason) string {
	switch {
	case reason == "":
		return "delivered"
	case status > 0 && (status < 200 || status > 299):
		return "HTTP " + number(status)
	case status > 0:
		return fmt.Sprintf("HTTP %d, %s", status, strings.ReplaceAll(string(reason), "_", " "))
	}
	return strings.ReplaceAll(string(reason), "_", " ")
}

// receiverMatters adds the receivers that fail, and the hosts whose breaker is open.
func (p *Pages) receiverMatters(b *board, v Visitor, add func(matter)) {
	listed, more := 0, 0
	for _, h := range p.hostsOf(b, v, "") {
		switch {
		case !h.Health.Failing() && h.Breaker == "":
			continue
		case listed == mostFailing:
			more++
			continue
		}
		listed++
		if h.Health.Failing() {
			add(p.failingMatter(&h))
			continue
		}
		add(matter{Level: wrong, Title: h.Host + " does not answer",
			Why:   fmt.Sprintf("%s of the last %s failed. Notices for it wait; one try at a time is made, the next %s.", number(h.Failed), plural(h.Calls, "call"), h.Retry.Ago),
			Links: []link{{receiverPath(h.Host), "Receiver"}, {noticesPath("route", h.Route, "host", h.Name, "state", "scheduled"), "Waiting notices"}}})
	}
	for i := range b.Health {
		if v.Owns(b.Health[i].Prefix) {
			more += b.Health[i].Others
		}
	}
	if more > 0 {
		add(matter{Level: wrong, Title: "About " + plural(more, "more receiver") + " failing", Links: []link{{Root + "receivers", "All receivers"}}})
	}
	if b.HealthErr != nil {
		add(matter{Level: mind, Title: "Health of receivers unknown", Why: p.failure(context.Background(), b.HealthErr).text})
	}
}

// failingMatter is a receiver that fails: "shop.example: failing since 15:10", "HTTP 500, 38 in a
// row · 23 waiting · next attempt 15:41".
func (p *Pages) failingMatter(h *hostRow) matter {
	r := &h.Health
	facts := []fact{{Text: lastAnswer(r)}}
	if r.Waiting > 0 {
		facts = append(facts, fact{Text: number(r.Waiting) + " waiting"}, fact{"next attempt", p.stamp(r.Next)})
	}
	if r.LastSuccess.IsZero() {
		facts = append(facts, fact{Text: "no success known"})
	} else {
		facts = append(facts, fact{"last success", p.stamp(r.LastSuccess)})
	}
	if h.Breaker != "" {
		facts = append(facts, fact{Text: "breaker open, next try " + h.Retry.Ago})
	}
	facts = append(facts, fact{Text: "route " + h.Route})

	view := noticesPath("route", h.Route, "host", h.Name, "state", string(notice.Scheduled))
	if rt := p.o.Routes.Prefix(h.Prefix); rt != nil && rt.Target.Kind != route.KindNotice {
		view = noticesPath("route", h.Route, "state", string(notice.Scheduled))
	}
	return matter{Level: h.Level, Title: health.Title(h.Host) + ": failing", Since: p.stamp(r.Since), Facts: facts,
		Links: []link{{view, "View"}, {receiverPath(h.Host), "Receiver"}}}
}

// calm is the text of a page without problems. It claims only what was checked.
func (p *Pages) calm(b *board) string {
	if p.o.Health == nil {
		return "No notice is late and nothing is paused."
	}
	return "No notice is late, no receiver's last attempt failed, and nothing is paused."
}
