package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// get serves GET /v1/notices/{key}.
func (a *api) get(w http.ResponseWriter, r *http.Request, at site) error {
	if err := noQuery(r); err != nil {
		return err
	}
	if err := at.check(at.param); err != nil {
		return err
	}

	f, err := a.finder.Find(r.Context(), at.param)
	sealed := false
	if gone(err) {
		var row history.Row
		var ok bool
		if row, ok, err = a.remembered(r.Context(), at.param); err == nil && !ok {
			return absent(at.param)
		}

		f = store.Found{Notice: row.Notice, State: notice.State(row.Outcome), SettledAt: row.Ended.Truncate(time.Millisecond)}
		sealed = row.WasSealed()
	}

	if err != nil {
		return err
	}

	v := a.wholeFor(r.Context(), at, &f)
	v.Sealed = v.Sealed || sealed
	return answerObject(w, http.StatusOK, &v)
}

// gone reports whether no notice is stored. A key without a route has none either, and is answered the same.
func gone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnrouted)
}

// change serves the calls that change one notice.
func (a *api) change(w http.ResponseWriter, r *http.Request, at site, verb string, do func() (store.Change, error)) error {
	if err := at.check(at.param); err != nil {
		return err
	}

	c, err := do()
	if gone(err) {
		return absent(at.param)
	}
	if err != nil {
		return err
	}

	repeated := c.Repeated || verb == "cancelled" && c.Before == notice.Cancelled
	if !c.Done && !repeated {
		p := problem(http.StatusConflict, "the notice is %s, so it cannot be %s: %s", c.Before, verb, hint(c.Before))
		p.State = string(c.Before)
		return p
	}

	v := ChangeAnswer{Changed: c.Done, Before: c.Before, InFlight: c.InFlight,
		Notice: a.wholeFor(r.Context(), at, &c.Found)}
	return answerObject(w, http.StatusOK, &RescheduleAnswer{v, ReadAs{at.readAs}})
}

// operated is a call of an operator on one notice.
type operated struct {
	action audit.Action
	verb   string // past participle, for the answer: "cancelled"
	do     func(ctx context.Context, key string) (store.Change, error)
	detail func(c *store.Change) string // the audit entry's text after the earlier state; may be nil
}

// operate is change for the calls of an operator, whose changes are in the audit.
func (a *api) operate(w http.ResponseWriter, r *http.Request, at site, o operated) error {
	return a.change(w, r, at, o.verb, func() (store.Change, error) {
		c, err := o.do(r.Context(), at.param)
		var refused *jobs.Refusal
		if errors.As(err, &refused) {
			p := problem(http.StatusConflict, "%v", err)
			p.State = string(refused.State)
			return c, p
		}

		if e, ok := Changed(o.action, at.param, &c, err); ok {
			if o.detail != nil {
				e.Detail += o.detail(&c)
			}

			a.operated(r, at, e, err)
		}

		return c, err
	})
}

func hint(s notice.State) string {
	switch s {
	case notice.Scheduled:
		return "it waits for its next attempt"
	case notice.Claimed:
		return "an attempt is running; ask again when it has ended"
	case notice.Delivered:
		return "it has been delivered; resend it, or schedule a new notice under another key"
	case notice.Cancelled:
		return "schedule it again with on_duplicate replace"
	case notice.Dead:
		return "redrive it first"
	}
	return "see its attempts"
}

func (a *api) cancel(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}
	return a.operate(w, r, at, operated{action: audit.Cancel, verb: "cancelled", do: a.changer.Cancel})
}

func (a *api) fire(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}
	return a.operate(w, r, at, operated{action: audit.Fire, verb: "fired", do: a.changer.Fire})
}

func (a *api) redrive(w http.ResponseWriter, r *http.Request, at site) error {
	q, p := queryOf(r, []parameter{paramExpires})
	if p != nil {
		return p
	}
	if err := noBody(w, r); err != nil {
		return err
	}

	var f codec.Faults
	var x notice.Expiry
	if s := q.Get(paramExpires.name); s != "" {
		x = codec.ExpiryField(&f, "query."+paramExpires.name, s)
	}

	if p := refusal(f); p != nil {
		return p
	}

	return a.operate(w, r, at, operated{action: audit.Redrive, verb: "redriven",
		do: func(ctx context.Context, key string) (store.Change, error) {
			return a.changer.Redrive(ctx, key, x)
		}})
}

// ResendRequest is the body of POST /v1/notices/{key}/resend.
type ResendRequest struct {
	ID     string `json:"id" doc:"The notice's webhook-id."`
	Ending int    `json:"ending" minimum:"1" doc:"The notice's ending, as an answer showed it."`
	// Expires is set if the expiry changes.
	Expires codec.Expiry `json:"expires,omitzero" doc:"When the notice expires now: a time, or the time from now, such as 10m. Required (422) if it has expired. By default its expiry stays. A notice that is read from the history has none."`
}

// resend serves POST /v1/notices/{key}/resend.
func (a *api) resend(w http.ResponseWriter, r *http.Request, at site) error {
	var q ResendRequest
	var f codec.Faults
	if err := readObject(w, r, &q, &f); err != nil {
		return err
	}

	switch {
	case len(f) > 0:
	case !notice.IsID(q.ID):
		f.Add("body.id", codec.Clip(q.ID, maxID), "want the notice's webhook-id: msg_ and 26 hexadecimal digits")
	case q.Ending < 1:
		f.Add("body.ending", nil, "is missing; want the notice's ending, from 1")
	}

	if p := refusal(f); p != nil {
		return p
	}

	err := a.operate(w, r, at, operated{action: audit.Resend, verb: "resent", do: func(ctx context.Context, key string) (store.Change, error) {
		return a.changer.Resend(ctx, key, q.ID, q.Ending, notice.Expiry(q.Expires))
	}})
	if errors.Is(err, history.ErrUnavailable) || errors.Is(err, history.ErrNewer) {
		return a.historyProblem(err)
	}

	return err
}

// reschedule serves PATCH /v1/notices/{key}.
func (a *api) reschedule(w http.ResponseWriter, r *http.Request, at site) error {
	var q RescheduleRequest
	var f codec.Faults
	if err := readObject(w, r, &q, &f); err != nil {
		return err
	}

	timed := q.Delay != nil || !time.Time(q.Due).IsZero()
	if len(f) == 0 && !timed && !q.readdresses() {
		f.Add("body", nil, "want delay or due, url, or headers")
		return refusal(f)
	}

	when, readAs := a.timesOf(q.Delay, q.Due, "body.", &f)
	if field, err := when.Check(a.now()); err != nil {
		f.AddErr("body."+field, notice.Stamp(when.Due), err)
	}

	if p := refusal(f); p != nil {
		return p
	}

	at.readAs = readAs
	if q.readdresses() {
		if !timed {
			return a.readdress(w, r, at, readdressing{&q, nil})
		}
		return a.readdress(w, r, at, readdressing{&q, &when})
	}

	return a.operate(w, r, at, operated{action: audit.Reschedule, verb: "rescheduled",
		do: func(ctx context.Context, key string) (store.Change, error) {
			return a.changer.Reschedule(ctx, key, when.Due, when.Delay)
		}})
}

// readdressing is a change of a notice's url or headers. due is the new due time; nil = it stays.
type readdressing struct {
	*RescheduleRequest
	due *store.When
}

func (a *api) readdress(w http.ResponseWriter, r *http.Request, at site, q readdressing) error {
	if !at.Role.Includes(auth.Operate) {
		return problem(http.StatusForbidden, "client %s has the role %s, and a change of url or headers needs %s", at.Name, at.Role,
			auth.Operate)
	}

	x := notice.Address{URL: string(q.URL), KeepHeaders: q.KeepHeaders}
	if q.Headers != nil {
		x.Headers, x.SetHeaders = *q.Headers, true
	}

	from := ""
	return a.operate(w, r, at, operated{action: audit.Readdress, verb: "changed",
		do: func(ctx context.Context, key string) (store.Change, error) {
			c, was, err := a.changer.Readdress(ctx, key, x, q.due)
			if was != nil {
				from = was.URL
			}

			return c, err
		},
		detail: func(c *store.Change) string { return readdressed(from, c.Notice, q.Headers != nil) }})
}

// readdressed describes a change of address for the audit, without the queries of urls.
func readdressed(from string, n *notice.Notice, headers bool) string {
	text := ""
	if n != nil && from != n.URL {
		text = ", from " + notice.PublicAddress(from) + " to " + notice.PublicAddress(n.URL)
	}

	if headers {
		text += ", with new headers"
	}

	return text
}

// readObject reads the body of a call that takes a small object, given as a pointer to its type.
func readObject(w http.ResponseWriter, r *http.Request, object any, f *codec.Faults) error {
	if err := noQuery(r); err != nil {
		return err
	}

	data, err := readBody(w, r, envelope)
	if err != nil {
		return err
	}
	if err := codec.Read(data, "body.", object, f); err != nil {
		return notJSON(err)
	}

	return nil
}

// whereID tells a consumer where to find the id of the notice that it reports on.
const whereID = `want the id of the entry: "id" of a list's element, the field id of a stream's entry, NOTICE_ID of a command`

// maxID is far above the length of an id.
const maxID = 100

// readReport reads a consumer's report. q is the part of object that all reports have.
func readReport(w http.ResponseWriter, r *http.Request, object any, q *AckRequest) (notice.Report, error) {
	var f codec.Faults
	if err := readObject(w, r, object, &f); err != nil {
		return notice.Report{}, err
	}

	switch {
	case len(f) > 0:
	case q.Attempt == 0:
		f.Add("body.attempt", nil, "is missing; want the attempt's number as the entry gave it")
	case q.ID == "":
		f.Add("body.id", nil, "is missing; "+whereID)
	case len(q.ID) > maxID:
		f.Add("body.id", codec.Clip(q.ID, maxID), whereID)
	}

	if p := refusal(f); p != nil {
		return notice.Report{}, p
	}

	return notice.Report{Attempt: q.Attempt, ID: q.ID, Result: notice.Result{Response: notice.Kept(q.Response)}}, nil
}

// report processes the report of a consumer.
func (a *api) report(w http.ResponseWriter, r *http.Request, at site, v notice.Report) error {
	at.sealed = true // a report is no reading that the audit should have
	return a.change(w, r, at, "reported on as attempt "+strconv.Itoa(v.Attempt), func() (store.Change, error) {
		c, err := a.reporter.Report(r.Context(), at.param, v)
		if err == nil && c.ID() != v.ID {
			p := problem(http.StatusConflict, "the report is on notice %s, and the key holds another one, %s, which is %s and stays as it is",
				codec.Clip(v.ID, maxID), c.ID(), c.State)
			p.State = string(c.State)
			return c, p
		}

		return c, err
	})
}

func (a *api) ack(w http.ResponseWriter, r *http.Request, at site) error {
	var q AckRequest
	v, err := readReport(w, r, &q, &q)
	if err != nil {
		return err
	}

	v.Outcome = notice.OutcomeDelivered
	return a.report(w, r, at, v)
}

func (a *api) nack(w http.ResponseWriter, r *http.Request, at site) error {
	var q NackRequest
	v, err := readReport(w, r, &q, &q.AckRequest)
	if err != nil {
		return err
	}

	v.Outcome, v.Reason = notice.OutcomeRetry, notice.ReasonRejected
	if q.Permanent {
		v.Outcome = notice.OutcomeDead
	}

	return a.report(w, r, at, v)
}

func (a *api) putOff(w http.ResponseWriter, r *http.Request, at site) error {
	var q DeferRequest
	v, err := readReport(w, r, &q, &q.AckRequest)
	if err != nil {
		return err
	}

	v.Outcome, v.Reason = notice.OutcomeDeferred, notice.ReasonLocked
	if q.After != nil {
		v.After = q.After.Span
	}

	return a.report(w, r, at, v)
}

// empty refuses a body and a query where neither has a meaning. White space, null and an
// empty object pass: many clients send one of them with every call.
func empty(w http.ResponseWriter, r *http.Request) error {
	if err := noQuery(r); err != nil {
		return err
	}
	return noBody(w, r)
}

func noBody(w http.ResponseWriter, r *http.Request) error {
	data, err := readBody(w, r, envelope)
	if err != nil {
		return err
	}
	if text := bytes.TrimSpace(data); len(text) == 0 || string(text) == "null" {
		return nil
	}

	var f codec.Faults
	if err := codec.Object(data, "body.", []string{}, &f, nil); err != nil {
		return notJSON(err)
	}
	if len(f) > 0 {
		return problem(http.StatusUnprocessableEntity, "this call takes no body")
	}

	return nil
}
