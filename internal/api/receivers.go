package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/fleet"
	"notifier/internal/health"
	"notifier/internal/holds"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Holder pauses and limits single receivers, and reads their figures.
type Holder interface {
	// PauseReceiver and LimitReceiver return a *store.FullError if the client has used up its share.
	PauseReceiver(ctx context.Context, client string, r holds.Receiver, until time.Time, over time.Duration) error
	// ResumeReceiver reports whether the receiver was paused.
	ResumeReceiver(ctx context.Context, r holds.Receiver, over time.Duration) (paused bool, err error)
	LimitReceiver(ctx context.Context, client string, l holds.Limit) error
	Holds(ctx context.Context) (*holds.Table, error)
	// HeldCounts returns for each pause, named by its field, the number of held notices by prefix of their route.
	HeldCounts(ctx context.Context, pauses []string) ([]map[string]int64, error)
	Health(ctx context.Context) ([]health.Route, error)
	// LastHour returns the attempts of receivers by prefix of the route and receiver.
	LastHour(ctx context.Context) (map[string]map[string]health.Hour, error)
}

// mostReceivers is the maximum number of receivers in one answer.
const mostReceivers = 1000

// ReceiverName names a receiver in the bodies of calls.
type ReceiverName struct {
	Host     string `json:"host,omitempty" doc:"A host, which includes all its ports, or host:port." example:"shop.example"`
	Audience string `json:"audience,omitempty" doc:"An audience, in place of a host." example:"m17"`
	Prefix   string `json:"prefix,omitempty" doc:"app, app:module or app:module:type: only notices under this prefix. If absent, the client's prefix; for a client without one, all." example:"app1"`
}

// PauseReceiverRequest is the body of POST /v1/receivers/pause.
type PauseReceiverRequest struct {
	ReceiverName
	Until codec.Stamp  `json:"until,omitzero" doc:"The end of the pause. If absent, it lasts until the receiver is resumed." example:"2026-11-27T06:00:00Z"`
	Over  *codec.Delay `json:"over,omitempty" doc:"After until, the held notices are spread over this time: a Go duration, or seconds."`
}

// ResumeReceiverRequest is the body of POST /v1/receivers/resume.
type ResumeReceiverRequest struct {
	ReceiverName
	Over *codec.Delay `json:"over,omitempty" doc:"The held notices are spread evenly over this time: a Go duration, or seconds. If absent, all are due at once."`
}

// LimitReceiverRequest is the body of PUT /v1/receivers/limits.
type LimitReceiverRequest struct {
	Host        string `json:"host" doc:"A host, which includes all its ports, or host:port." example:"shop.example"`
	Prefix      string `json:"prefix,omitempty" doc:"Only routes under this prefix. If absent, the client's prefix; for a client without one, all routes." example:"app1"`
	Rate        string `json:"rate,omitempty" doc:"Calls in a second, a minute or an hour on each route. Absent or 0: only the route's limit holds." example:"5/s"`
	Concurrency int    `json:"concurrency,omitempty" doc:"Concurrent calls on each route. Absent or 0: only the route's limit holds." example:"2"`
}

// ReceiverAnswer answers a call that pauses, resumes or limits a receiver.
type ReceiverAnswer struct {
	ReceiverName
	Known       bool        `json:"known" doc:"false: no attempt for the host failed within 48 hours on a route that lies wholly inside the client's prefix, so there are no figures of it. It may be a name without notices."`
	Paused      bool        `json:"paused" doc:"The receiver is paused by this name and prefix."`
	PausedUntil codec.Stamp `json:"paused_until,omitzero" doc:"Absent: until it is resumed."`
	Changed     bool        `json:"changed" doc:"false: the receiver to resume was not paused."`
	Rate        string      `json:"rate,omitempty" example:"5/s"`
	Concurrency int         `json:"concurrency,omitempty"`
}

// ReceiverFigures is one receiver in the answer of GET /v1/receivers.
type ReceiverFigures struct {
	ReceiverName
	InFlight     int         `json:"in_flight" doc:"Running calls of all instances."`
	Attempts     int         `json:"attempts" doc:"Attempts in this clock hour and the one before. Counted from a receiver's first failure on."`
	Failed       int         `json:"failed" doc:"Failed ones of these attempts."`
	FailingSince codec.Stamp `json:"failing_since,omitzero" doc:"The first failure after the last success."`
	Breaker      string      `json:"breaker,omitempty" enum:"open,half-open" doc:"The state of the circuit breaker, unless it is closed."`
	Paused       bool        `json:"paused" doc:"Some of its notices are held."`
	PausedUntil  codec.Stamp `json:"paused_until,omitzero" doc:"Absent: until it is resumed."`
	Held         int64       `json:"held" doc:"Held notices, for a pause by this name and prefix."`
	Rate         string      `json:"rate,omitempty" doc:"The limit that an operator has set." example:"5/s"`
	Concurrency  int         `json:"concurrency,omitempty" doc:"The limit that an operator has set."`
}

// ReceiverList answers GET /v1/receivers.
type ReceiverList struct {
	Items   []ReceiverFigures `json:"items" doc:"Pauses and limits first, then the other receivers by name. At most 1,000."`
	LeftOut int               `json:"left_out,omitempty" doc:"Receivers above 1,000."`
}

var receiverParams = []parameter{paramReceiverHost}

var paramReceiverHost = parameter{"host", "Only receivers with this host, with or without a port.", "shop.example"}

// receiver checks the name of a receiver. A client with a prefix names receivers of its own notices only.
func (n *ReceiverName) receiver(at site, f *codec.Faults) (holds.Receiver, *Problem) {
	r := holds.Receiver{Prefix: strings.TrimSuffix(n.Prefix, ":"), Audience: n.Audience}
	switch {
	case (n.Host == "") == (n.Audience == ""):
		f.Add("body.host", nil, "want host or audience, one of them")
	case n.Host != "":
		r.Host = portMember(n.Host, f)
	default:
		if err := notice.CheckAudience(n.Audience); err != nil {
			f.Add("body.audience", codec.Clip(n.Audience, 100), "%s", codec.Clip(err.Error(), 200))
		}
	}

	var p *Problem
	r.Prefix, p = scopeOf(r.Prefix, at, f)
	return r, p
}

// scopeOf checks the prefix of a request. It is the caller's prefix if none is given.
func scopeOf(prefix string, at site, f *codec.Faults) (string, *Problem) {
	if prefix = cmp.Or(prefix, at.Prefix); prefix == "" {
		return "", nil
	}

	if err := keys.CheckPrefix(prefix); err != nil {
		f.Add("body.prefix", codec.Clip(prefix, 100), "%s", codec.Clip(err.Error(), 200))
		return prefix, nil
	}

	if !at.Owns(prefix) {
		return prefix, problem(http.StatusForbidden, "this client may only name receivers of keys under %s", at.Prefix)
	}

	return prefix, nil
}

func portMember(given string, f *codec.Faults) string {
	host, err := notice.HostPort(given)
	if err != nil {
		f.Add("body.host", codec.Clip(given, 100), "%s", codec.Clip(err.Error(), 200))
	}

	return host
}

func spanOf(d *codec.Delay) time.Duration {
	if d == nil {
		return 0
	}
	return d.Span
}

// overMember checks the time over which held notices are spread.
func overMember(d *codec.Delay, f *codec.Faults) time.Duration {
	over := spanOf(d)
	if over < 0 || over > maxOver {
		f.Add("body.over", over.String(), "want at most %s", notice.Short(maxOver))
	}

	return over
}

const maxOver = 7 * 24 * time.Hour

// pauseReceiver serves POST /v1/receivers/pause.
func (a *api) pauseReceiver(w http.ResponseWriter, r *http.Request, at site) error {
	var q PauseReceiverRequest
	var f codec.Faults
	if err := readObject(w, r, &q, &f); err != nil {
		return err
	}

	x, p := q.receiver(at, &f)
	until, over := time.Time(q.Until), overMember(q.Over, &f)
	switch {
	case !until.IsZero() && !until.After(a.now()):
		f.Add("body.until", until.Format(time.RFC3339), "is not in the future")
	case until.Sub(a.now()) > notice.MaxHorizon:
		f.Add("body.until", until.Format(time.RFC3339), "is too far in the future")
	case until.IsZero() && over > 0:
		f.Add("body.over", over.String(), "needs until; or give it to the resume call")
	}

	if err := errors.Join(asError(refusal(f)), asError(p)); err != nil {
		return err
	}

	err := a.holder.PauseReceiver(r.Context(), at.Name, x, until, over)
	entry := audit.Entry{Action: audit.PauseReceiver, Prefix: x.Prefix, Detail: PauseDetail(x, until)}
	return a.receiverDone(w, r, at, receiverChange{entry, err,
		ReceiverAnswer{ReceiverName: nameOf(x), Paused: true, PausedUntil: codec.Stamp(until), Changed: true}})
}

// resumeReceiver serves POST /v1/receivers/resume.
func (a *api) resumeReceiver(w http.ResponseWriter, r *http.Request, at site) error {
	var q ResumeReceiverRequest
	var f codec.Faults
	if err := readObject(w, r, &q, &f); err != nil {
		return err
	}

	x, p := q.receiver(at, &f)
	over := overMember(q.Over, &f)
	if err := errors.Join(asError(refusal(f)), asError(p)); err != nil {
		return err
	}

	paused, err := a.holder.ResumeReceiver(r.Context(), x, over)
	if err == nil && !paused { // nothing to note
		return a.answerReceiver(w, r, at, ReceiverAnswer{ReceiverName: nameOf(x)})
	}

	entry := audit.Entry{Action: audit.ResumeReceiver, Prefix: x.Prefix, Detail: ResumeDetail(x, over)}
	return a.receiverDone(w, r, at, receiverChange{entry, err,
		ReceiverAnswer{ReceiverName: nameOf(x), Changed: true}})
}

// limitReceiver serves PUT /v1/receivers/limits.
func (a *api) limitReceiver(w http.ResponseWriter, r *http.Request, at site) error {
	var q LimitReceiverRequest
	var f codec.Faults
	if err := readObject(w, r, &q, &f); err != nil {
		return err
	}

	name := ReceiverName{Host: q.Host, Prefix: q.Prefix}
	x, p := name.receiver(at, &f)
	l := holds.Limit{Receiver: x, Concurrency: q.Concurrency}
	if q.Rate != "" && q.Rate != "0" {
		rate, err := notice.ParseRate(q.Rate)
		if l.Rate = rate; err != nil {
			f.Add("body.rate", codec.Clip(q.Rate, 100), "want a rate such as 5/s or 60/m, or 0")
		}
	}

	if q.Concurrency < 0 {
		f.Add("body.concurrency", q.Concurrency, "want a number of calls, or 0")
	}

	if err := errors.Join(asError(refusal(f)), asError(p)); err != nil {
		return err
	}

	v := ReceiverAnswer{ReceiverName: nameOf(x), Rate: RateText(l.Rate), Concurrency: l.Concurrency, Changed: true}
	err := a.holder.LimitReceiver(r.Context(), at.Name, l)
	return a.receiverDone(w, r, at, receiverChange{audit.Entry{Action: audit.LimitReceiver, Prefix: x.Prefix, Detail: LimitDetail(&l)}, err,
		v})
}

func nameOf(r holds.Receiver) ReceiverName {
	return ReceiverName{Host: r.Host, Audience: r.Audience, Prefix: r.Prefix}
}

// asError returns p as an error, nil if p is nil.
func asError(p *Problem) error {
	if p == nil {
		return nil
	}
	return p
}

// receiverChange is a change of a receiver with its result.
type receiverChange struct {
	entry  audit.Entry
	err    error
	answer ReceiverAnswer
}

// receiverDone notes a change of a receiver in the audit and answers the call.
func (a *api) receiverDone(w http.ResponseWriter, r *http.Request, at site, c receiverChange) error {
	e, err, v := c.entry, c.err, c.answer
	var full *store.FullError
	if errors.As(err, &full) {
		return problem(http.StatusConflict, "%v: GET /v1/receivers lists them", full)
	}

	a.operated(r, at, e, err)
	if err != nil {
		return err
	}

	return a.answerReceiver(w, r, at, v)
}

// answerReceiver answers with the state of a receiver. Whether it is known depends on the caller's own routes only.
func (a *api) answerReceiver(w http.ResponseWriter, r *http.Request, at site, v ReceiverAnswer) error {
	list, err := a.holder.Health(r.Context())
	if err != nil { // the change was made
		list = nil
	}

	for i := range list {
		v.Known = v.Known || at.Owns(list[i].Prefix) &&
			slices.ContainsFunc(list[i].Receivers, func(x health.Receiver) bool { return sameHost(x.Name, v.Host) })
	}

	return writeJSON(w, http.StatusOK, v)
}

// sameHost reports whether a receiver with its port is that host, with or without a port.
func sameHost(receiver, host string) bool {
	return host != "" && (receiver == host || health.Host(receiver) == host)
}

// receivers serves GET /v1/receivers.
func (a *api) receivers(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, receiverParams)
	if p != nil {
		return p
	}

	var f codec.Faults
	host := ""
	if s := values.Get("host"); s != "" {
		var err error
		if host, err = notice.HostPort(s); err != nil {
			f.Add("query.host", codec.Clip(s, 100), "%s", codec.Clip(err.Error(), 200))
		}
	}

	if p := refusal(f); p != nil {
		return p
	}

	table, err := a.holder.Holds(r.Context())
	if err != nil {
		return err
	}

	list := &receiverList{api: a, at: at, host: host, table: table, by: map[ReceiverName]*ReceiverFigures{}}
	if err := list.read(r.Context()); err != nil {
		return err
	}

	return writeJSON(w, http.StatusOK, list.answer())
}

// receiverList collects the figures of receivers.
type receiverList struct {
	api   *api
	at    site
	host  string // empty = all
	table *holds.Table
	by    map[ReceiverName]*ReceiverFigures
	names []ReceiverName // in order
	first int            // the number of names with a pause or limit
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
		l.names = append(l.names, name)
	}

	return x
}

func (l *receiverList) read(ctx context.Context) error {
	if err := l.entries(ctx); err != nil {
		return err
	}

	l.first = len(l.names)
	routes, err := l.api.holder.Health(ctx)
	if err != nil {
		return err
	}

	hours, err := l.api.holder.LastHour(ctx)
	if err != nil {
		return err
	}

	for i := range routes {
		if l.at.Owns(routes[i].Prefix) {
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
			if l.at.Owns(h.Prefix) {
				l.figuresOf(h)
			}
		}
	}

	slices.SortFunc(l.names[l.first:], func(a, b ReceiverName) int { return cmp.Compare(a.Host, b.Host) })
	return nil
}

// entries adds the pauses and limits that the caller may see.
func (l *receiverList) entries(ctx context.Context) error {
	var fields []string
	var at []*ReceiverFigures
	now := l.api.now()
	for _, p := range l.table.Pauses() {
		if !l.at.Owns(p.Prefix) || !p.Active(now) {
			continue
		}
		if x := l.of(nameOf(p.Receiver)); x != nil && len(at) < mostReceivers {
			x.Paused, x.PausedUntil = true, codec.Stamp(p.Until)
			fields, at = append(fields, p.String()), append(at, x)
		}
	}

	for _, m := range l.table.Limits() {
		if !l.at.Owns(m.Prefix) {
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

func (l *receiverList) healthOf(route *health.Route, hours map[string]health.Hour) {
	for _, h := range route.Receivers {
		x := l.receiver(route.Prefix, h.Name)
		if x == nil {
			continue
		}

		x.Attempts, x.Failed = x.Attempts+hours[h.Name].Attempts, x.Failed+hours[h.Name].Failed
		if h.Failing() && (time.Time(x.FailingSince).IsZero() || h.Since.Before(time.Time(x.FailingSince))) {
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

// receiver returns the figures of a receiver of a route, all routes of the caller together.
func (l *receiverList) receiver(prefix, name string) *ReceiverFigures {
	x := l.of(ReceiverName{Host: name})
	if x == nil || x.Paused {
		return x
	}

	if p := l.table.Held(prefix+":x", name, "", l.api.now()); p != nil {
		x.Paused, x.PausedUntil = true, codec.Stamp(p.Until)
	}

	return x
}

func (l *receiverList) answer() ReceiverList {
	out := ReceiverList{Items: []ReceiverFigures{}, LeftOut: max(0, len(l.names)-mostReceivers)}
	for _, name := range l.names[:len(l.names)-out.LeftOut] {
		out.Items = append(out.Items, *l.by[name])
	}

	return out
}
