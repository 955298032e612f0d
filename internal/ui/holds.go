package ui

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
)

// mostHolds is the maximum number of paused and limited receivers on a page.
const mostHolds = 10

// holdRow is a paused or limited receiver.
type holdRow struct {
	holdForm
	Until   stamp  // the end of the pause
	Rule    string // that has made the pause; empty = a client has
	Held    string
	Limited bool
	May     bool
}

// holdForm is the forms that pause, resume and limit a receiver.
type holdForm struct {
	ID string // distinguishes the forms of a page
	// Hosts are the hosts to choose from, if there are several. Otherwise the receiver is Host or Audience. If both are
	// empty, the visitor types it.
	Hosts          []string
	Host, Audience string
	Prefix         string
	Paused         bool
	Rate           string
	Concurrency    int
	From           string // the receiver on whose page the forms are; empty = the list's
	CSRF           string
}

// typed reports whether the visitor types the receiver.
func (f holdForm) typed() bool { return len(f.Hosts) == 0 && f.Host == "" && f.Audience == "" }

// concurrency is the value of the field; empty for no limit.
func (f holdForm) concurrency() string {
	if f.Concurrency == 0 {
		return ""
	}
	return strconv.Itoa(f.Concurrency)
}

// holdsOf returns the pauses and limits that the visitor may change: those of a receiver, or all if it is empty. A pause by a rule
// that is shown with one of the hosts is left out. more is the number of the others that are left out.
func (p *Pages) holdsOf(b *problems.Board, v Visitor, receiver string, hosts []hostRow) (rows []holdRow, more int) {
	if b.Holds == nil {
		return nil, 0
	}

	list := holdList{p: p, visitor: v, receiver: receiver, by: map[receivers.Receiver]*holdRow{}}
	for _, pause := range b.Holds.Pauses() {
		if row := list.row(pause.Receiver); row != nil && pause.Active(b.At) {
			row.Paused, row.Until, row.Rule, row.Held = true, p.stamp(pause.Until), pause.Rule, "–"
			if n, counted := b.Held[pause.String()]; counted {
				row.Held = number(n)
			}
		}
	}

	for _, limit := range b.Holds.Limits() {
		if row := list.row(limit.Receiver); row != nil {
			row.Limited, row.Rate, row.Concurrency = true, api.RateText(limit.Rate), limit.Concurrency
		}
	}

	for _, row := range list.rows {
		if (row.Paused || row.Limited) && !row.joins(hosts) {
			rows = append(rows, *row)
		}
	}

	slices.SortStableFunc(rows, func(a, b holdRow) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Audience, b.Audience), cmp.Compare(a.Prefix, b.Prefix))
	})
	more = max(0, len(rows)-mostHolds)
	return rows[:len(rows)-more], more
}

// holdList collects the rows of pauses and limits.
type holdList struct {
	p        *Pages
	visitor  Visitor
	receiver string
	by       map[receivers.Receiver]*holdRow
	rows     []*holdRow
}

// row returns the row of a receiver, and adds it if there is none; nil if it is not wanted.
func (l *holdList) row(r receivers.Receiver) *holdRow {
	wanted := l.receiver == "" || r.Host != "" && (r.Host == l.receiver || r.Host == receivers.Host(l.receiver))
	if !wanted || !l.visitor.Owns(r.Prefix) {
		return nil
	}

	if l.by[r] == nil {
		f := holdForm{ID: anchor("hold-" + r.String()), Host: r.Host, Audience: r.Audience, Prefix: r.Prefix, From: l.receiver,
			CSRF: l.visitor.CSRF}
		l.by[r] = &holdRow{holdForm: f, Held: "–", May: l.visitor.May(auth.Operate)}
		l.rows = append(l.rows, l.by[r])
	}

	return l.by[r]
}

// joins adds a pause by a rule to the row of its receiver, and reports whether there is one. Such a receiver has failed, so a list has it
// anyway.
func (h *holdRow) joins(hosts []hostRow) bool {
	if h.Rule == "" || h.Limited || h.Audience != "" {
		return false
	}

	i := slices.IndexFunc(hosts, func(r hostRow) bool { return r.Host == h.Host && r.Prefix == h.Prefix })
	if i >= 0 {
		hosts[i].Ruled = h
	}

	return i >= 0
}

// addHold sets the pause and the limits that apply to a receiver of a route, whoever has set them.
func (h *hostRow) addHold(p *Pages, b *problems.Board, v Visitor) {
	rt := p.o.Routes.Prefix(h.Prefix)
	called := rt == nil || rt.Target.Kind == route.KindNotice || rt.Target.Kind == route.KindFixed
	if _, err := notice.HostPort(h.Host); !called || err != nil {
		return
	}

	h.MayHold = v.May(auth.Operate)
	if b.Holds == nil {
		return
	}

	if pause := b.Holds.Held(h.Prefix+":x", h.Host, "", b.At); pause != nil {
		h.Paused, h.PausedUntil, h.PausedBy = true, p.stamp(pause.Until), pause.Rule
	}

	rate, concurrency := b.Holds.Limit(h.Prefix, h.Host)
	h.LimitRate, h.LimitConcurrency = api.RateText(rate), concurrency
}

// holdForms returns the forms on the page of a receiver; nil if the visitor cannot pause it.
func holdForms(page *receiverPage, v Visitor) *holdForm {
	receiver := page.Receiver
	host, err := notice.HostPort(receiver)
	called := len(page.Holds) > 0 || slices.ContainsFunc(page.Routes, func(r receiverOfRoute) bool { return r.MayHold })
	if err != nil || !called || !v.May(auth.Operate) {
		return nil
	}

	f := &holdForm{ID: "hold", Host: host, Prefix: v.Prefix, From: receiver, CSRF: v.CSRF}
	if name := receivers.Host(host); name != host {
		f.Hosts = []string{host, name}
	}

	return f
}

// changeReceivers adds the changes of paused and limited receivers.
func (p *Pages) changeReceivers() {
	p.change(auth.Operate, "POST /ui/receivers/pause", p.pauseReceiver)
	p.change(auth.Operate, "POST /ui/receivers/resume", p.resumeReceiver)
	p.change(auth.Operate, "POST /ui/receivers/limit", p.limitReceiver)
}

// unchanged returns the failure of a change that was refused because of its input.
func unchanged(why text) error {
	return failure{http.StatusUnprocessableEntity, both(why, say("Nothing was changed."))}
}

// field returns a field of a form without surrounding space.
func field(r *http.Request, name string) string { return strings.TrimSpace(r.FormValue(name)) }

// receiverOf reads the receiver of a form. The default prefix is the visitor's.
func (p *Pages) receiverOf(r *http.Request, v Visitor) (receivers.Receiver, error) {
	x := receivers.Receiver{Prefix: cmp.Or(strings.TrimSuffix(field(r, "prefix"), ":"), v.Prefix), Audience: field(r, "audience")}
	host := field(r, "host")
	var err error
	switch {
	case host == "" && x.Audience == "":
		return x, unchanged(say("Set a host, an audience, or both."))
	case x.Audience != "" && notice.CheckAudience(x.Audience) != nil:
		return x, unchanged(say("Not an audience."))
	case x.Prefix != "" && keys.CheckPrefix(x.Prefix) != nil:
		return x, unchanged(say("Not a prefix: use app, app:module or app:module:type."))
	case !v.Owns(x.Prefix):
		return x, failure{http.StatusForbidden, say("You may only change receivers of notices under `%s`.", v.Prefix)}
	case host != "":
		if x.Host, err = notice.HostPort(host); err != nil {
			return x, unchanged(say("Not a host: use a name such as shop.example, or with a port such as shop.example:8443."))
		}
	}

	return x, nil
}

// spreadOf reads the receiver of a form, and the time over which its held notices are spread.
func (p *Pages) spreadOf(r *http.Request, v Visitor) (x receivers.Receiver, over time.Duration, err error) {
	if x, err = p.receiverOf(r, v); err != nil {
		return x, 0, err
	}

	over, known := overOf(r.FormValue("over"))
	if !known {
		return x, 0, unchanged(say("Not a time that notices can be spread over."))
	}

	return x, over, nil
}

// pauseReceiver pauses a receiver.
func (p *Pages) pauseReceiver(w http.ResponseWriter, r *http.Request, v Visitor) error {
	x, over, err := p.spreadOf(r, v)
	if err != nil {
		return err
	}

	until, err := p.instant(field(r, "until"), v, notice.TakeNext)
	past := say("The end of the pause is not in the future, or too far in it.")
	switch {
	case err != nil:
		return unchanged(timeFault(err))
	case until.After(p.now().Add(notice.MaxHorizon)):
		return unchanged(past)
	case until.IsZero() && over > 0:
		return unchanged(say("Only a pause with an end can spread its notices. Otherwise spread them when you resume the receiver."))
	}

	until = until.Truncate(time.Millisecond)
	err = p.o.Engine.PauseReceiver(lasting(r), v.Client, x, until, over)
	if errors.Is(err, receivers.ErrUntil) {
		return unchanged(past)
	}

	entry := audit.Entry{Action: audit.PauseReceiver, Prefix: x.Prefix, Detail: api.PauseDetail(x, until)}
	return p.receiverChanged(w, r, v, receiverChange{entry, err, "receiver-paused"})
}

// resumeReceiver ends the pause of a receiver.
func (p *Pages) resumeReceiver(w http.ResponseWriter, r *http.Request, v Visitor) error {
	x, over, err := p.spreadOf(r, v)
	if err != nil {
		return err
	}

	paused, err := p.o.Engine.ResumeReceiver(lasting(r), x, over)
	if err == nil && !paused { // nothing to note
		return p.backToReceivers(w, r, "receiver-unchanged")
	}

	entry := audit.Entry{Action: audit.ResumeReceiver, Prefix: x.Prefix, Detail: api.ResumeDetail(x, over)}
	return p.receiverChanged(w, r, v, receiverChange{entry, err, "receiver-resumed"})
}

// limitReceiver sets or removes the limits of a receiver.
func (p *Pages) limitReceiver(w http.ResponseWriter, r *http.Request, v Visitor) error {
	x, err := p.receiverOf(r, v)
	if err != nil {
		return err
	}

	l := receivers.Limit{Receiver: x}
	if rate := field(r, "rate"); rate != "" && rate != "0" {
		if l.Rate, err = notice.ParseRate(rate); err != nil || l.Rate > maxRate {
			return unchanged(rateFault)
		}
	}

	if n := field(r, "concurrency"); n != "" {
		if l.Concurrency, err = strconv.Atoi(n); err != nil || l.Concurrency < 0 {
			return unchanged(say("The number of concurrent calls is not a number."))
		}
	}

	if x.Host == "" || x.Audience != "" {
		return unchanged(say("Only hosts can be limited."))
	}

	word := "receiver-limited"
	if l.Rate == 0 && l.Concurrency == 0 {
		word = "receiver-unlimited"
	}

	err = p.o.Engine.LimitReceiver(lasting(r), v.Client, l)
	entry := audit.Entry{Action: audit.LimitReceiver, Prefix: x.Prefix, Detail: api.LimitDetail(&l)}
	return p.receiverChanged(w, r, v, receiverChange{entry, err, word})
}

// receiverChange is a change of a receiver with its result.
type receiverChange struct {
	entry audit.Entry
	err   error
	said  string
}

// receiverChanged notes a change of a receiver in the audit and redirects to the page of the form.
func (p *Pages) receiverChanged(w http.ResponseWriter, r *http.Request, v Visitor, c receiverChange) error {
	var full *store.FullError
	if errors.As(c.err, &full) {
		why := say("This client has made %s paused receivers and limits, its share of the maximum. Resume receivers or remove limits.", full.Most)
		if full.All {
			why = say("There are %s paused receivers and limits, the maximum. Resume receivers or remove limits.", full.Most)
		}

		return failure{http.StatusConflict, both(why, say("Nothing was changed."))}
	}

	p.note(r, v, c.entry, c.err)
	if c.err != nil {
		return c.err
	}

	p.sampler.Changed()
	return p.backToReceivers(w, r, c.said)
}

// backToReceivers redirects to the page of the form: the list, or the page of a receiver.
func (p *Pages) backToReceivers(w http.ResponseWriter, r *http.Request, said string) error {
	to := Root + "receivers"
	if from := r.FormValue("from"); from != "" {
		to = receiverPath(from)
	}

	return back(w, to, url.Values{"said": {said}})
}
