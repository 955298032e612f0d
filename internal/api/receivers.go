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
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/store"
)

// Holder pauses and limits single receivers, and reads their figures.
type Holder interface {
	// PauseReceiver and LimitReceiver return a *store.FullError if the client has used up its share.
	PauseReceiver(ctx context.Context, client string, r receivers.Receiver, until time.Time, over time.Duration) error
	// ResumeReceiver reports whether the receiver was paused.
	ResumeReceiver(ctx context.Context, r receivers.Receiver, over time.Duration) (paused bool, err error)
	LimitReceiver(ctx context.Context, client string, l receivers.Limit) error
	Holds(ctx context.Context) (*receivers.HoldTable, error)
	// HeldCounts returns for each pause, named by its field, the number of held notices by prefix of their route.
	HeldCounts(ctx context.Context, pauses []string) ([]map[string]int64, error)
	Health(ctx context.Context) ([]receivers.RouteHealth, error)
	// LastHour returns the attempts of receivers by prefix of the route and receiver.
	LastHour(ctx context.Context) (map[string]map[string]receivers.Hour, error)
}

// mostPauses is the maximum number of pauses of which one answer has the held notices.
const mostPauses = 1000

// ReceiverName names a receiver in the bodies of calls.
type ReceiverName struct {
	Host     string `json:"host,omitempty" doc:"A host, which includes all its ports, or host:port." example:"shop.example"`
	Audience string `json:"audience,omitempty" doc:"An audience: in place of a host, or at that host." example:"m17"`
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
	LastAttempt  codec.Stamp `json:"last_attempt,omitzero" doc:"Absent: no attempt failed within 48 hours."`
	Status       int         `json:"status,omitempty" doc:"The HTTP status of the last attempt; absent if there was no answer." example:"500"`
	Reason       string      `json:"reason,omitempty" doc:"Why the last attempt failed; absent if it did not." example:"status_5xx"`
	Waiting      int         `json:"waiting" doc:"Notices that wait for a failing receiver, at the last count: due or failed before."`
	Breaker      string      `json:"breaker,omitempty" enum:"open,half-open" doc:"The state of the circuit breaker, unless it is closed."`
	Paused       bool        `json:"paused" doc:"Some of its notices are held."`
	PausedUntil  codec.Stamp `json:"paused_until,omitzero" doc:"Absent: until it is resumed."`
	PausedBy     string      `json:"paused_by,omitempty" doc:"The rule of the route that made the pause. Absent: a client has made it." example:"ON_STATUS 401"`
	Held         int64       `json:"held" doc:"Held notices, for a pause by this name and prefix."`
	Rate         string      `json:"rate,omitempty" doc:"The limit that an operator has set." example:"5/s"`
	Concurrency  int         `json:"concurrency,omitempty" doc:"The limit that an operator has set."`
}

// ReceiverList answers GET /v1/receivers.
type ReceiverList struct {
	Items  []ReceiverFigures `json:"items" doc:"Failing receivers first: those that fail for a day, 6 hours, an hour, 15 minutes, and the others; among these, the most waiting notices first. Then pauses and limits, then receivers that have recovered, then the others."`
	Total  int               `json:"total" doc:"Receivers on all pages."`
	Cursor string            `json:"cursor,omitempty" doc:"Pass this to get the next page. Absent on the last page. A receiver whose place has changed meanwhile may be on two pages, or on none."`
}

var (
	receiverParams = []parameter{paramReceiverHost, paramContains, paramReceiverState, paramReceiverRoute, paramReceiverReason, paramLimit,
		paramCursor}
	paramReceiverHost   = parameter{"host", "Only receivers with this host, with or without a port.", "shop.example"}
	paramContains       = parameter{"contains", "Only receivers whose host or audience contains this text.", "shop"}
	paramReceiverState  = parameter{"state", "failing, paused, limited or recovered; all if absent.", "failing"}
	paramReceiverRoute  = parameter{"route", "The name of a route: only its receivers, with the figures of this route.", "orders"}
	paramReceiverReason = parameter{"reason", "Only receivers whose last attempt failed for this reason.", "status_5xx"}
)

// receiver checks the name of a receiver. A client with a prefix names receivers of its own notices only.
func (n *ReceiverName) receiver(at site, f *codec.Faults) (receivers.Receiver, *Problem) {
	r := receivers.Receiver{Prefix: strings.TrimSuffix(n.Prefix, ":"), Audience: n.Audience}
	if n.Host == "" && n.Audience == "" {
		f.Add("body.host", nil, "want host, audience or both")
	}

	if n.Host != "" {
		r.Host = portMember(n.Host, f)
	}

	if n.Audience != "" {
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

// prefixMember returns the prefix of a request without a final colon.
func prefixMember(given string, f *codec.Faults) string {
	prefix := strings.TrimSuffix(given, ":")
	if err := keys.CheckPrefix(prefix); prefix != "" && err != nil {
		f.Add("body.prefix", codec.Clip(prefix, 100), "%s", codec.Clip(err.Error(), 200))
	}

	return prefix
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
	l := receivers.Limit{Receiver: x, Concurrency: q.Concurrency}
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

func nameOf(r receivers.Receiver) ReceiverName {
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
			slices.ContainsFunc(list[i].Receivers, func(x receivers.Health) bool { return sameHost(x.Name, v.Host) })
	}

	return writeJSON(w, http.StatusOK, v)
}

// sameHost reports whether a receiver with its port is that host, with or without a port.
func sameHost(receiver, host string) bool {
	return host != "" && (receiver == host || receivers.Host(receiver) == host)
}
