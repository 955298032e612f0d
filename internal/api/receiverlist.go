package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/codec"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
)

// receivers serves GET /v1/receivers.
func (a *api) receivers(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, receiverParams)
	if p != nil {
		return p
	}

	list := &receiverList{api: a, at: at, by: map[ReceiverName]*ReceiverFigures{}}
	limit, p := list.choose(values)
	if p != nil {
		return p
	}

	cursors := a.cursors("receivers", at, values)
	after, err := cursors.open(r.Context(), values.Get("cursor"))
	if err != nil {
		return err
	}

	now := a.now()
	if after != "" {
		ms, place, ok := strings.Cut(after, " ")
		n, err := strconv.ParseInt(ms, 10, 64)
		if !ok || err != nil {
			return store.ErrCursor
		}

		now, after = time.UnixMilli(n), place
	}

	if list.table, err = a.holder.Holds(r.Context()); err != nil {
		return err
	}

	if err := list.read(r.Context()); err != nil {
		return err
	}

	out, last := list.page(now, after, limit)
	if last != "" {
		if out.Cursor, err = cursors.seal(r.Context(), strconv.FormatInt(now.UnixMilli(), 10)+" "+last); err != nil {
			return err
		}
	}

	return writeJSON(w, http.StatusOK, out)
}

// receiverList collects the figures of receivers.
type receiverList struct {
	api       *api
	at        site
	host      string       // empty = all
	route     *route.Route // nil = all
	selection receivers.Selection
	table     *receivers.HoldTable
	by        map[ReceiverName]*ReceiverFigures
}

// choose reads the parameters.
func (l *receiverList) choose(values url.Values) (limit int, p *Problem) {
	var f codec.Faults
	if s := values.Get("host"); s != "" {
		var err error
		if l.host, err = notice.HostPort(s); err != nil {
			f.Add("query.host", codec.Clip(s, 100), "%s", codec.Clip(err.Error(), 200))
		}
	}

	l.selection = receivers.Selection{Contains: values.Get("contains"), State: receivers.State(values.Get("state")),
		Reason: values.Get("reason")}
	if s := l.selection.State; s != "" && !slices.Contains(receivers.States, s) {
		f.Add("query.state", codec.Clip(string(s), 60), "want one of %s", codec.Join(receivers.States))
	}

	if s := l.selection.Reason; s != "" && !slices.Contains(notice.Reasons, notice.Reason(s)) {
		f.Add("query.reason", codec.Clip(s, 60), "want one of %s", codec.Join(notice.Reasons))
	}

	limit = limitOf(values, &f)
	if p := refusal(f); p != nil {
		return 0, p
	}

	if name := values.Get("route"); name != "" {
		if l.route = l.api.routes.Name(name); l.route == nil || !l.at.Owns(l.route.Prefix) {
			return 0, noRoute(name)
		}
	}

	return limit, nil
}

// owns reports whether the list has the figures of a route.
func (l *receiverList) owns(prefix string) bool {
	return l.at.Owns(prefix) && (l.route == nil || l.route.Prefix == prefix)
}

// holds reports whether the list has a pause or limit for notices under a prefix.
func (l *receiverList) holds(prefix string) bool {
	return l.at.Owns(prefix) && (l.route == nil || keys.Overlap(prefix, l.route.Prefix))
}

// of returns the figures of a receiver; nil if it was not asked for.
func (l *receiverList) of(name ReceiverName) *ReceiverFigures {
	if l.host != "" && !sameHost(name.Host, l.host) {
		return nil
	}

	x := l.by[name]
	if x == nil {
		x = &ReceiverFigures{ReceiverName: name}
		l.by[name] = x
	}

	return x
}

func (l *receiverList) read(ctx context.Context) error {
	if err := l.entries(ctx); err != nil {
		return err
	}

	routes, err := l.api.holder.Health(ctx)
	if err != nil {
		return err
	}

	hours, err := l.api.holder.LastHour(ctx)
	if err != nil {
		return err
	}

	for i := range routes {
		if l.owns(routes[i].Prefix) {
			l.healthOf(&routes[i], hours[routes[i].Prefix])
		}
	}

	instances, err := l.api.musterer.Instances(ctx)
	if err != nil {
		return err
	}

	for _, one := range instances {
		figures, _ := one.ReadFigures()
		for _, h := range figures.Hosts {
			if l.owns(h.Prefix) {
				l.figuresOf(h)
			}
		}
	}

	return nil
}

// entries adds the pauses and limits that the caller may see.
func (l *receiverList) entries(ctx context.Context) error {
	var fields []string
	var at []*ReceiverFigures
	now := l.api.now()
	for _, p := range l.table.Pauses() {
		if !l.holds(p.Prefix) || !p.Active(now) {
			continue
		}
		if x := l.of(nameOf(p.Receiver)); x != nil && len(at) < mostPauses {
			x.Paused, x.PausedUntil, x.PausedBy = true, codec.Stamp(p.Until), p.Rule
			fields, at = append(fields, p.String()), append(at, x)
		}
	}

	for _, m := range l.table.Limits() {
		if !l.holds(m.Prefix) {
			continue
		}
		if x := l.of(nameOf(m.Receiver)); x != nil {
			x.Rate, x.Concurrency = RateText(m.Rate), m.Concurrency
		}
	}

	counts, err := l.api.holder.HeldCounts(ctx, fields)
	for i, some := range counts {
		for _, n := range some {
			at[i].Held += n
		}
	}

	return err
}

func (l *receiverList) healthOf(route *receivers.RouteHealth, hours map[string]receivers.Hour) {
	for _, h := range route.Receivers {
		x := l.receiver(route.Prefix, h.Name)
		if x == nil {
			continue
		}

		x.Attempts, x.Failed = x.Attempts+hours[h.Name].Attempts, x.Failed+hours[h.Name].Failed
		x.Waiting += h.Waiting
		// Of several routes, a failing one and its latest attempt.
		last, failing := time.Time(x.LastAttempt), !time.Time(x.FailingSince).IsZero()
		if h.Failing() && !failing || h.Failing() == failing && h.LastAttempt.After(last) {
			x.Status, x.Reason = h.Status, h.Reason
		}

		if h.LastAttempt.After(last) {
			x.LastAttempt = codec.Stamp(h.LastAttempt)
		}

		if h.Failing() && (!failing || h.Since.Before(time.Time(x.FailingSince))) {
			x.FailingSince = codec.Stamp(h.Since)
		}
	}
}

func (l *receiverList) figuresOf(h fleet.HostFigures) {
	x := l.receiver(h.Prefix, h.Host)
	if x == nil {
		return
	}

	x.InFlight += h.InFlight
	if h.Breaker == "open" || x.Breaker == "" {
		x.Breaker = h.Breaker
	}
}

// receiver returns the figures of a receiver of a route, all listed routes together.
func (l *receiverList) receiver(prefix, name string) *ReceiverFigures {
	x := l.of(ReceiverName{Host: name})
	if x == nil || x.Paused {
		return x
	}

	if p := l.table.Held(prefix+":x", name, "", l.api.now()); p != nil {
		x.Paused, x.PausedUntil, x.PausedBy = true, codec.Stamp(p.Until), p.Rule
	}

	return x
}

// page returns the receivers after a position, and the position of the last one if more follow.
func (l *receiverList) page(now time.Time, after string, limit int) (out ReceiverList, last string) {
	at := map[string]*ReceiverFigures{}
	var places []string
	for _, x := range l.by {
		one := x.listed()
		if !l.selection.Has(&one) {
			continue
		}

		place := one.Position(now)
		at[place], places = x, append(places, place)
	}

	slices.Sort(places)
	out = ReceiverList{Items: []ReceiverFigures{}, Total: len(places)}
	first, _ := slices.BinarySearchFunc(places, after, func(place, after string) int {
		if after != "" && place <= after {
			return -1
		}
		return 1
	})
	for _, place := range places[first:] {
		if len(out.Items) == limit {
			return out, last
		}

		out.Items, last = append(out.Items, *at[place]), place
	}

	return out, ""
}

// listed is the receiver as lists order and select it.
func (x *ReceiverFigures) listed() receivers.Listed {
	name, tie := x.Host, "host "+x.Prefix
	if x.Audience != "" {
		name, tie = strings.TrimSpace(x.Host+" "+x.Audience), "audience "+x.Prefix
	}

	return receivers.Listed{Name: name, Tie: tie, Since: time.Time(x.FailingSince), LastAttempt: time.Time(x.LastAttempt), Reason: x.Reason,
		Waiting: x.Waiting, Broken: x.Breaker != "", Paused: x.Paused, Limited: x.Rate != "" || x.Concurrency > 0}
}
