package ui

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// redriveRates are the rates that the form of a redrive offers; empty = at once.
var redriveRates = []string{"", "1/s", "10/s", "100/s", "1000/s"}

// quickRate is the rate that the form proposes for more than manyRedriven notices.
const (
	quickRate    = "100/s"
	manyRedriven = 100
)

// pace is a rate of a redrive, with the time that it takes.
type pace struct {
	Rate   string
	Text   text
	Chosen bool
}

// paces returns the rates for a number of notices. The number may be too low: all reports that it is not.
func paces(count int, all bool) (list []pace) {
	for _, rate := range redriveRates {
		p := pace{Rate: rate, Text: say("at once"), Chosen: count > manyRedriven == (rate == quickRate) && (rate == "" || rate == quickRate)}
		if perSecond, err := notice.ParseRate(rate); err == nil {
			takes := store.Paced(count, perSecond).Round(time.Second)
			if p.Text = say("%s: over %s", rate, takes); !all {
				p.Text = say("%s: over at least %s", rate, takes)
			}
		}

		list = append(list, p)
	}

	return list
}

// rateOf reads the rate of a redrive; 0 = at once.
func rateOf(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}

	rate, err := notice.ParseRate(s)
	if err != nil || rate > maxRate {
		return 0, failure{http.StatusUnprocessableEntity, both(rateFault, say("Nothing was redriven."))}
	}

	return rate, nil
}

// counted is a cursor of a redrive with the number of notices that the steps before it have changed.
func counted(n int, cursor string) string {
	if cursor == "" {
		return ""
	}
	return strconv.Itoa(n) + " " + cursor
}

// recounted is the inverse of counted.
func recounted(text string) (n int, cursor string) {
	count, cursor, _ := strings.Cut(text, " ")
	n, _ = strconv.Atoi(count)
	return n, cursor
}

// redrivenPage is the progress of a redrive.
type redrivenPage struct {
	group
	Why           text
	Total         int
	Rate          string
	Pending, Dead int
	// Last is when the last pending notice that was inspected is due.
	Last stamp
	// Some reports whether not all notices were inspected, so that the counts are minimums.
	Some    bool
	Away    text
	Waiting string // the address of the pending notices
	Again   string // the address of the group
}

// Ended returns the number of notices that are neither pending nor dead.
func (d redrivenPage) Ended() int { return max(0, d.Total-d.Pending-d.Dead) }

// redrivenEvery is how often, in seconds, the page of a redrive is loaded again while notices are pending. redrivenTime limits the
// listing of each state.
const (
	redrivenEvery = 5
	redrivenTime  = searchTime
)

// showRedriven serves the progress of a redrive: how many of its notices are pending, and how many are dead again.
func (p *Pages) showRedriven(w http.ResponseWriter, r *http.Request, v Visitor) error {
	g, q, _, err := p.groupOf(r, v)
	if err != nil {
		return err
	}

	get := r.URL.Query().Get
	page := redrivenPage{group: g, Why: v.why(g), Rate: get("rate"), Waiting: noticesPath("route", g.Route, "state", string(notice.Scheduled)),
		Again: Root + "dead/group?" + g.values().Encode()}
	page.Total, err = strconv.Atoi(get("n"))
	job := get("job")
	if _, wrong := rateOf(page.Rate); err != nil || wrong != nil || page.Total < 0 || !store.IsJob(job) {
		return failure{http.StatusNotFound, say("There is no such page.")}
	}

	// A redriven notice may die of another cause.
	q = store.Query{Routes: q.Routes, Prefix: q.Prefix}
	for _, q.State = range []notice.State{notice.Scheduled, notice.Claimed, notice.Dead} {
		if err := p.countRedriven(r.Context(), q, v, job, &page); err != nil {
			return err
		}
	}

	out := view{Title: say("Redrive of %s", g.Route), Section: say("Dead letters"), Visitor: v, Content: redrivenContent(page)}
	if page.Pending > 0 {
		out.Retry = redrivenEvery
	}

	return p.render(w, r, http.StatusOK, out)
}

// countRedriven counts the visible notices of a redrive in a state.
func (p *Pages) countRedriven(ctx context.Context, q store.Query, v Visitor, job string, page *redrivenPage) error {
	q.Limit = deadStep
	for end := time.Now().Add(redrivenTime); ; {
		got, err := p.o.Engine.List(ctx, q)
		if err != nil {
			return err
		}

		for i := range got.Items {
			switch f := &got.Items[i]; {
			case f.Job != job || !v.Sees(f, p.hostOf(f)):
			case q.State == notice.Dead:
				page.Dead++
			default:
				page.Pending++
				page.Last = p.stamp(f.Due)
			}
		}

		if away := v.away(got.Missing); away != nil {
			page.Away = away
		}

		if q.Cursor = got.Cursor; q.Cursor == "" {
			return nil
		}

		if time.Now().After(end) {
			page.Some = true
			return nil
		}
	}
}

// groupChange is the result of the steps of a change of a group so far.
type groupChange struct {
	group
	amended
	said   string
	purges bool
	before int // changed by earlier steps
}

// after is the address of the page after a change of a group: the progress of a redrive, or the group while the change is not over.
func (c groupChange) after(p *Pages, r *http.Request, v Visitor) (path string, query url.Values, err error) {
	switch {
	case c.cursor != "":
		query = c.values()
		query.Set("rate", r.FormValue("rate"))
		err = p.continuing(r, query, counted(c.before+c.done, c.cursor), c.bound(v))
		return Root + "dead/group", c.saying(c.said, query), err
	case c.purges || c.before+c.done == 0:
		return Root + "dead", c.saying(c.said, url.Values{"route": {c.Route}}), nil
	}

	query = c.values()
	if len(c.left) > 0 {
		query = c.saying(c.said, query) // that nodes were skipped
	}

	query.Set("job", c.job)
	query.Set("n", strconv.Itoa(c.before+c.done))
	if rate := r.FormValue("rate"); rate != "" {
		query.Set("rate", rate)
	}

	return Root + "dead/redriven", query, nil
}
