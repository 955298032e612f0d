package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"notifier/internal/audit"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
)

const redeliverRate = "5/s" // unless another one is chosen

// redeliverPage is the form that redrives the dead letters of a receiver within a window.
type redeliverPage struct {
	Receiver, Route, Since, Until, Rate string
	Path                                string
	Wrong                               text
	CSRF                                string
	// Counted reports whether Count was computed. All reports whether Count includes all dead letters of
	// the window.
	Counted, All bool
	Count        int
	Takes        time.Duration // the duration at the rate
	Away         text
	Cursor       string // continues a redelivery
	Replay       string // the form of a replay, for delivered notices; empty = no history
}

// window is the dead letters of a redelivery, and their rate.
type window struct {
	query store.Query
	rate  float64 // a second
	wrong text
}

// bound is the context to which the cursor of a redelivery is sealed.
func (d *redeliverPage) bound(v Visitor) []byte {
	return []byte("redeliver\n" + v.scope() + "\n" + d.Receiver + "\n" + d.Route)
}

// delay returns the delay of the nth notice.
func (x window) delay(n int) time.Duration {
	return time.Duration(float64(n) / x.rate * float64(time.Second))
}

// redeliveryOf reads the form.
func (p *Pages) redeliveryOf(r *http.Request, v Visitor) (page redeliverPage, x window, err error) {
	name := r.PathValue("receiver")
	page = redeliverPage{Receiver: name, Route: r.FormValue("route"), Since: r.FormValue("since"), Until: r.FormValue("until"),
		Rate: cmp.Or(r.FormValue("rate"), redeliverRate), Path: receiverPath(name), CSRF: v.CSRF, Cursor: r.FormValue("cursor")}
	host := receivers.Host(name)
	rt := p.routeNamed(page.Route)
	if rt != nil && rt.Target.Kind != route.KindNotice {
		host = "" // all notices of the route have this receiver
	}

	if rt == nil || !v.Owns(rt.Prefix) || host == "" && receivers.ReceiverOf(rt, "") != name {
		return page, x, failure{http.StatusNotFound, say("There is no such route with this receiver.")}
	}

	s := filter{Route: page.Route, State: notice.Dead, Host: host, Since: page.Since, Until: page.Until}
	if x.query, x.wrong, err = p.query(r.Context(), s, v); err != nil || x.wrong != nil {
		return page, x, err
	}

	if page.Cursor != "" {
		x.query.Cursor, err = p.continues(r, page.bound(v))
	} else if now := p.now(); x.query.Until.IsZero() || x.query.Until.After(now) {
		x.query.Until = now // the window of the preview is that of the redelivery
	}

	if err != nil {
		return page, x, err
	}

	if x.rate, err = notice.ParseRate(page.Rate); err != nil || x.rate > maxRate {
		x.wrong = rateFault
	}

	return page, x, nil
}

// routeNamed returns the route with a name; nil if there is none.
func (p *Pages) routeNamed(name string) *route.Route {
	for _, rt := range p.o.Routes.All() {
		if rt.Name == name {
			return rt
		}
	}
	return nil
}

// showRedeliver serves the form, and with the parameter preview the number of dead letters.
func (p *Pages) showRedeliver(w http.ResponseWriter, r *http.Request, v Visitor) error {
	page, x, err := p.redeliveryOf(r, v)
	if err != nil {
		return err
	}

	if page.Wrong = x.wrong; r.URL.Query().Has("preview") && x.wrong == nil {
		got := p.amendDead(r.Context(), v, store.Bulk{Query: x.query, Op: store.Redrive, DryRun: true}, 2*searchTime)
		if got.failed != nil {
			return got.failed
		}

		page.Counted, page.Count, page.Away = true, got.matched, v.away(got.left)
		page.All = got.cursor == "" && page.Away == nil
		page.Takes = x.delay(page.Count)
		// In whole seconds, which fit the fields; the window contains all that were counted.
		if !x.query.Since.IsZero() {
			page.Since = x.query.Since.Truncate(time.Second).Format(time.RFC3339)
		}

		page.Until = x.query.Until.Add(time.Second - 1).Truncate(time.Second).Format(time.RFC3339)
	}

	if host, err := notice.Host(receivers.Host(page.Receiver)); p.o.Replays != nil && err == nil {
		q, _ := p.searchFor(filter{Host: host, Route: page.Route, Since: page.Since, Until: page.Until}, v)
		page.Replay = p.replayForm(q, v)
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Redeliver to %s", receivers.Title(page.Receiver)), Section: say("Receivers"),
		Visitor: v, Content: redeliverContent(page)})
}

// redeliver redrives the dead letters of the window, one after the other at the rate.
func (p *Pages) redeliver(w http.ResponseWriter, r *http.Request, v Visitor) error {
	page, x, err := p.redeliveryOf(r, v)
	if err != nil {
		return err
	}
	if x.wrong != nil {
		return failure{http.StatusUnprocessableEntity, both(x.wrong, say("Nothing was redriven."))}
	}

	got := p.amendDead(lasting(r), v, store.Bulk{Query: x.query, Op: store.Redrive, Delay: x.delay}, changeTime)
	detail := fmt.Sprintf("%s to %s, until %s, at %s", plural(got.done, "dead letter"), page.Receiver, x.query.Until.Format(time.RFC3339),
		page.Rate)
	if !x.query.Since.IsZero() {
		detail += ", since " + x.query.Since.Format(time.RFC3339)
	}

	entry := audit.Entry{Action: audit.Redrive, Route: page.Route, Prefix: p.routeNamed(page.Route).Prefix, Detail: detail + got.without()}
	if err := p.noteDead(r, v, entry, got); err != nil {
		return err
	}

	to, query := page.Path, url.Values{}
	if got.cursor != "" { // the rest is redriven from there
		to, query = page.Path+"/redeliver", url.Values{"route": {page.Route}, "since": {page.Since}, "until": {page.Until}, "rate": {page.Rate},
			"preview": {"1"}}
		if err := p.continuing(r, query, got.cursor, page.bound(v)); err != nil {
			return err
		}
	}

	return back(w, to, got.saying("group", query))
}
