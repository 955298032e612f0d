package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// parameter is one query parameter.
type parameter struct{ name, about, example string }

var (
	paramRoute  = parameter{"route", "The name of a route; all routes if absent.", "orders"}
	paramPrefix = parameter{"prefix", "app, app:module or app:module:type: the prefix of the keys.", "app1:orders:paid"}
	paramState  = parameter{"state", "scheduled, claimed, delivered, cancelled or dead; all if absent.", "dead"}
	paramWaits  = parameter{"waiting", "true: only notices that are due while another one of their sequence comes first, the longest wait " +
		"first; since and until are then the start of the wait. Only routes with an order have any.", "true"}
	paramReason = parameter{"reason", "The reason of dead letters.", "status_5xx"}
	paramStatus = parameter{"status", "The HTTP status of the last attempt, for a reason that has one; reason is needed.", "500"}
	paramSince  = parameter{"since", "RFC 3339; by due time, or for finalized notices by the time of the end.", "2026-11-21T00:00:00Z"}
	paramUntil  = parameter{"until", "RFC 3339, exclusive.", "2026-11-22T00:00:00Z"}
	paramLimit  = parameter{"limit", "1 to 1000, 100 if absent.", "100"}
	paramCursor = parameter{"cursor",
		"The cursor of the page before; opaque, and valid for the same client and query only. After a 400 that names it, start again " +
			"without a cursor.",
		""}
	paramCalled  = parameter{"host", "The host that is called, without port.", "shop.example"}
	paramRate    = parameter{"rate", "Redriven notices are due one after the other at this rate instead of at once.", "5/s"}
	paramExpires = parameter{"expires", "When the notice expires now: a time, or the time from now. Required (422) if it has " +
		"expired; by default its expiry stays.", "10m"}
	paramDryRun = parameter{"dry_run", "true: count and change nothing.", "true"}
)

func noQuery(r *http.Request) error {
	_, p := queryOf(r, nil)
	if p != nil {
		return p
	}

	return nil
}

// queryOf reads the query; parameters that are unknown or given twice are refused.
func queryOf(r *http.Request, known []parameter) (url.Values, *Problem) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}

	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem(http.StatusBadRequest, "the query cannot be read: an escape or a separator is wrong")
	}

	var f codec.Faults
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}

	given := make([]string, 0, len(q))
	for name := range q {
		given = append(given, name)
	}

	slices.Sort(given)
	for _, name := range given {
		switch {
		case !slices.Contains(names, name) && len(names) == 0:
			f.Add("query."+codec.Clip(name, 60), nil, "this call takes no parameters")
		case !slices.Contains(names, name):
			f.Add("query."+codec.Clip(name, 60), nil, "no such parameter; there are %s", strings.Join(names, ", "))
		case len(q[name]) > 1:
			f.Add("query."+name, nil, "is given twice")
		}
	}

	return q, refusal(f)
}

// filter reads the parameters that listings and bulk redrives share.
func (a *api) filter(q url.Values, f *codec.Faults) store.Query {
	var out store.Query
	if p := q.Get("prefix"); p != "" {
		out.Prefix = strings.TrimSuffix(p, ":")
		if err := keys.CheckPrefix(out.Prefix); err != nil {
			f.Add("query.prefix", codec.Clip(p, 100), "%s", codec.Clip(err.Error(), 200))
		}
	}

	if s := q.Get("reason"); s != "" {
		if out.Reason = notice.Reason(s); !slices.Contains(notice.Reasons, out.Reason) {
			f.Add("query.reason", codec.Clip(s, 60), "want one of %s", codec.Join(notice.Reasons))
		}
	}

	out.Status = statusOf(q, out.Reason, f)
	out.Since, out.Until = span(q, f)
	return out
}

// statusOf reads the parameter status.
func statusOf(q url.Values, reason notice.Reason, f *codec.Faults) int {
	s := q.Get("status")
	if s == "" {
		return 0
	}

	c := notice.Cause{Reason: reason}
	c.Status, _ = strconv.Atoi(s)
	if c.Status == 0 || notice.CauseOf(c.Code()) != c {
		f.Add("query.status", codec.Clip(s, 60), "want a status that the reason can have, such as 503 with the reason status_5xx")
		return 0
	}

	return c.Status
}

// span reads the parameters since and until.
func span(q url.Values, f *codec.Faults) (since, until time.Time) {
	instant := func(name string) time.Time {
		s := q.Get(name)
		if s == "" {
			return time.Time{}
		}

		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || t.Year() < 1970 || t.Year() > 2200 {
			f.Add("query."+name, codec.Clip(s, 60), "want a time such as 2026-11-21T09:30:00Z")
			return time.Time{}
		}

		return t.UTC()
	}
	since, until = instant("since"), instant("until")
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		f.Add("query.until", nil, "is not after since")
	}

	return since, until
}

// limitOf reads the parameter limit.
func limitOf(q url.Values, f *codec.Faults) int { return limitUpTo(maxPage, defaultPage, q, f) }

// limitUpTo is limitOf with another maximum and another default.
func limitUpTo(most, otherwise int, q url.Values, f *codec.Faults) int {
	s := q.Get("limit")
	if s == "" {
		return otherwise
	}

	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		f.Add("query.limit", codec.Clip(s, 60), "want a number from 1 to %d", most)
		return otherwise
	}

	return n
}

// narrow narrows a query to the caller's scope. It returns false if they have no key in common.
func (c caller) narrow(q *store.Query) bool {
	switch {
	case c.Owns(q.Prefix):
		return true
	case q.Prefix == "" || keys.HasPrefix(c.Prefix, q.Prefix):
		q.Prefix = c.Prefix
		return true
	}
	return false
}

// waitingOf reads the parameter waiting.
func waitingOf(q url.Values, state notice.State, f *codec.Faults) bool {
	switch s := q.Get("waiting"); s {
	case "", "false":
		return false
	case "true":
	default:
		f.Add("query.waiting", codec.Clip(s, 60), "want true or false")
	}

	if state != "" && state != notice.Scheduled {
		f.Add("query.waiting", nil, "waiting notices are scheduled; leave state out")
	}

	return true
}

// list serves GET /v1/notices.
func (a *api) list(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, listParams)
	if p != nil {
		return p
	}

	var f codec.Faults
	q := a.filter(values, &f)
	q.Limit = limitOf(values, &f)
	if s := values.Get("state"); s != "" {
		if q.State = notice.State(s); !slices.Contains(notice.States, q.State) {
			f.Add("query.state", codec.Clip(s, 60), "want one of %s", codec.Join(notice.States))
		}
	}

	q.Waiting = waitingOf(values, q.State, &f)
	host := hostParam(values, &f)
	if q.Reason != "" && q.State != notice.Dead {
		f.Add("query.reason", nil, "only dead letters have a reason; add state=dead")
	}

	if p := refusal(f); p != nil {
		return p
	}

	within := at.narrow(&q)
	if name := values.Get("route"); name != "" || within {
		if err := a.choose(r.Context(), &q, at.caller, name); err != nil {
			return err
		}
	}

	page, cursors := store.Page{}, a.cursors("list", at, values)
	var err error
	if q.Cursor, err = cursors.open(r.Context(), values.Get("cursor")); err != nil {
		return err
	}

	if within && len(q.Routes) > 0 {
		if page, err = a.lister.List(r.Context(), q); err != nil {
			return err
		}
	}

	out := []byte(`{"items":[`)
	n := 0
	for _, item := range page.Items {
		if !at.Covers(item.Key) || host != "" && a.hostOf(item.Notice) != host {
			continue
		}

		if n++; n > 1 {
			out = append(out, ',', '\n')
		}

		v := a.wholeFor(r.Context(), at, &item)
		out = codec.Append(out, &v)
	}

	return cursors.writePage(w, r, out, page.Cursor, at.missing(page.Missing).Nodes)
}

// choose sets the prefixes that are listed: that of the route named, which may be
// a prefix that no route has any more, or all that may hold such keys.
func (a *api) choose(ctx context.Context, q *store.Query, c caller, name string) error {
	if name != "" {
		route, missing := a.routeNamed(name, c)
		if missing == nil {
			q.Routes = []string{route.Prefix}
			return nil
		}

		if !c.Meets(name) {
			return missing
		}

		unrouted, err := a.lister.Unrouted(ctx)
		if err == nil && !slices.Contains(unrouted, name) {
			err = missing
		}

		q.Routes = []string{name}
		return err
	}

	unrouted, err := a.lister.Unrouted(ctx)
	if err != nil {
		return err
	}

	all := make([]string, 0, len(unrouted))
	for _, route := range a.routes.All() {
		all = append(all, route.Prefix)
	}

	for _, p := range append(all, unrouted...) {
		// A prefix without such keys costs a call, and a page takes few.
		if c.Meets(p) && (auth.Caller{Prefix: q.Prefix}).Meets(p) {
			q.Routes = append(q.Routes, p)
		}
	}

	return nil
}

// routeNamed is the route of that name, as far as the caller can see it.
func (a *api) routeNamed(name string, c caller) (*route.Route, error) {
	if r := a.routes.Name(name); r != nil && c.Meets(r.Prefix) {
		return r, nil
	}
	return nil, noRoute(name)
}
