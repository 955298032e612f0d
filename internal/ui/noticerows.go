package ui

import (
	"time"

	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/store"
)

// noticeRow is a notice in a list.
type noticeRow struct {
	Key, Route, Host string
	State            notice.State
	When             stamp
	Event            text // the meaning of When
	Attempts         string
	Late             text // how late the last attempt of a dead letter began
	Both             bool // the history has it too
	Last             text
}

// pastRow is an entry of the history.
type pastRow struct {
	Path, Key, Host, Route string
	Outcome                notice.Ending
	At                     stamp
	Attempts               string
	Last                   text
	Late                   text
	Both                   bool // Redis has it too
}

// routesMet returns the routes with notices that the visitor may see, for a search.
func (p *Pages) routesMet(v Visitor) (names []string) {
	for _, rt := range p.o.Routes.All() {
		if v.Meets(rt.Prefix) {
			names = append(names, p.routeFor(rt.Prefix, v))
		}
	}
	return names
}

func (p *Pages) noticeRow(f *store.Found, v Visitor) noticeRow {
	row := noticeRow{Key: f.Key, Route: p.routeFor(f.Route, v), Host: p.hostOf(f), State: f.State, Attempts: number(f.AttemptsMade),
		Late: lateText(f.Notice, f.State)}
	row.When, row.Event = p.stamp(f.Due), say("due")
	switch {
	case !f.SettledAt.IsZero():
		row.When, row.Event = p.stamp(f.SettledAt), say("ended")
	case f.State == notice.Claimed:
		row.Event = say("due")
	case f.Due.Before(p.now().Add(-problems.LateFrom)):
		row.Event = say("overdue since")
	}

	if n := len(f.Attempts); n > 0 {
		row.Last = v.result(f.Attempts[n-1])
	}

	if f.State == notice.Dead && f.Reason != "" && lastReason(f) != f.Reason {
		row.Last = v.reason(f.Reason)
	}

	return row
}

// lateText is how late the last attempt of a dead letter began; nil without one.
func lateText(n *notice.Notice, state notice.State) text {
	if len(n.Attempts) == 0 || state != notice.Dead {
		return nil
	}

	late := n.Attempts[len(n.Attempts)-1].At.Sub(n.Due)
	if late < time.Millisecond || n.Due.IsZero() {
		return nil
	}

	return say("%s late", late)
}

// lastReason returns why the last attempt failed.
func lastReason(f *store.Found) notice.Reason {
	if n := len(f.Attempts); n > 0 {
		return f.Attempts[n-1].Reason
	}
	return ""
}

func (p *Pages) pastRow(x *history.Row, v Visitor) pastRow {
	return pastRow{Path: entryPath(x), Key: x.Key, Host: x.Host, Route: p.routeFor(x.Route, v), Outcome: x.Outcome, At: p.stamp(x.Ended),
		Attempts: number(x.AttemptsMade), Late: lateText(x.Notice, notice.State(x.Outcome)), Last: v.last(x)}
}
