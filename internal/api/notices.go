package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"

	"notifier/internal/audit"
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
	if gone(err) {
		ok := false
		if f, ok, err = a.remembered(r.Context(), at.param); err == nil && !ok {
			return absent(at.param)
		}
	}
	if err != nil {
		return err
	}
	return writeRaw(w, http.StatusOK, "application/json", append(a.appendNotice(nil, f, a.scheduledBy(r.Context(), at.caller, f.Notice), ""), '\n'))
}

// gone reports whether nothing is kept: a key that no route covers holds nothing
// either, and whoever asks for it is told the same.
func gone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnrouted)
}

// change is the frame of the calls that change one notice.
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
	more := `"changed":` + strconv.FormatBool(c.Done) + `,"before":"` + string(c.Before) + `","in_flight":` + strconv.FormatBool(c.InFlight)
	if at.readAs != "" {
		more += `,"delay":"` + at.readAs + `"`
	}
	return writeRaw(w, http.StatusOK, "application/json", append(a.appendNotice(nil, c.Found, a.scheduledBy(r.Context(), at.caller, c.Notice), more), '\n'))
}

// operated is a call of an operator on one notice.
type operated struct {
	action audit.Action
	verb   string // what the notice then is
	do     func(ctx context.Context, key string) (store.Change, error)
}

// operate is change for the calls of an operator: what they changed is entered in
// the audit.
func (a *api) operate(w http.ResponseWriter, r *http.Request, at site, o operated) error {
	return a.change(w, r, at, o.verb, func() (store.Change, error) {
		c, err := o.do(r.Context(), at.param)
		if err != nil || c.Done {
			a.operated(r, at, audit.Entry{Action: o.action, Key: at.param, Detail: "it was " + string(c.Before)}, err)
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
		return "it has been delivered; schedule a new notice under another key"
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
	return a.operate(w, r, at, operated{audit.Cancel, "cancelled", a.changer.Cancel})
}

func (a *api) fire(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}
	return a.operate(w, r, at, operated{audit.Fire, "fired", a.changer.Fire})
}

func (a *api) redrive(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}
	return a.operate(w, r, at, operated{audit.Redrive, "redriven", a.changer.Redrive})
}

// reschedule serves PATCH /v1/notices/{key}.
func (a *api) reschedule(w http.ResponseWriter, r *http.Request, at site) error {
	var when store.When
	var given []string
	var f faults
	err := a.fields(w, r, []string{"delay", "due"}, &f, func(name, loc string, raw []byte) {
		given = append(given, name)
		a.timeField(&f, name, loc, raw, &when)
		at.readAs = readAs(name, raw, when.Delay)
	})
	if err != nil {
		return err
	}
	if len(f) == 0 && len(given) != 1 {
		f.add("body", nil, "want either delay or due")
	}
	if p := f.problem(); p != nil {
		return p
	}
	return a.operate(w, r, at, operated{audit.Reschedule, "rescheduled", func(ctx context.Context, key string) (store.Change, error) {
		return a.changer.Reschedule(ctx, key, when.Due, when.Delay)
	}})
}

// fields reads the body of a call that takes a small object.
func (a *api) fields(w http.ResponseWriter, r *http.Request, known []string, f *faults, each func(name, at string, raw []byte)) error {
	if err := noQuery(r); err != nil {
		return err
	}
	data, err := readBody(w, r, envelope)
	if err != nil {
		return err
	}
	return object(data, "body.", known, f, each)
}

// whereID says where a consumer has the id of what it reports on.
const whereID = `want the id of the entry: "id" of a list's element, the field id of a stream's entry, NOTICE_ID of a command`

// maxID is far above the length of an id.
const maxID = 100

// reported is one of the calls by which a consumer says what came of an attempt:
// its fields beside those that all have, and what it makes of them.
type reported struct {
	known  []string
	report notice.Report
	each   func(f *faults, v *notice.Report, loc string, raw []byte)
}

// report is the frame of these calls.
func (a *api) report(w http.ResponseWriter, r *http.Request, at site, call reported) error {
	v := call.report
	var f faults
	err := a.fields(w, r, append([]string{"attempt", "id", "response"}, call.known...), &f, func(name, loc string, raw []byte) {
		switch name {
		case "attempt":
			n, err := strconv.Atoi(string(raw))
			if v.Attempt = n; err != nil || n < 1 || n > 1<<31 {
				f.add(loc, shown(raw), "want the attempt's number, 1 or more, as the entry gave it")
			}
		case "id":
			if v.ID = stringField(&f, loc, raw); kind(raw) == '"' && (v.ID == "" || len(v.ID) > maxID) {
				f.add(loc, shown(raw), whereID)
			}
		case "response":
			v.Response = notice.Kept(stringField(&f, loc, raw))
		default:
			call.each(&f, &v, loc, raw)
		}
	})
	if err != nil {
		return err
	}
	if len(f) == 0 && v.Attempt == 0 {
		f.add("body.attempt", nil, "is missing; want the attempt's number as the entry gave it")
	}
	if len(f) == 0 && v.ID == "" {
		f.add("body.id", nil, "is missing; "+whereID)
	}
	if p := f.problem(); p != nil {
		return p
	}
	return a.change(w, r, at, "reported on as attempt "+strconv.Itoa(v.Attempt), func() (store.Change, error) {
		c, err := a.reporter.Report(r.Context(), at.param, v)
		if err == nil && c.ID() != v.ID {
			p := problem(http.StatusConflict, "the report is on notice %s, and the key holds another one, %s, which is %s and stays as it is",
				clip(v.ID, maxID), c.ID(), c.State)
			p.State = string(c.State)
			return c, p
		}
		return c, err
	})
}

func (a *api) ack(w http.ResponseWriter, r *http.Request, at site) error {
	return a.report(w, r, at, reported{report: notice.Report{Result: notice.Result{Outcome: notice.OutcomeDelivered}}})
}

func (a *api) nack(w http.ResponseWriter, r *http.Request, at site) error {
	return a.report(w, r, at, reported{known: []string{"permanent"},
		report: notice.Report{Result: notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected}},
		each: func(f *faults, v *notice.Report, loc string, raw []byte) {
			switch string(raw) {
			case "true":
				v.Outcome = notice.OutcomeDead
			case "false":
			default:
				f.add(loc, shown(raw), "want true or false")
			}
		}})
}

func (a *api) putOff(w http.ResponseWriter, r *http.Request, at site) error {
	return a.report(w, r, at, reported{known: []string{"after"},
		report: notice.Report{Result: notice.Result{Outcome: notice.OutcomeDeferred, Reason: notice.ReasonLocked}},
		each: func(f *faults, v *notice.Report, loc string, raw []byte) {
			v.After, _ = durationField(f, loc, raw)
		}})
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
	var f faults
	if err := object(data, "body.", []string{}, &f, nil); err != nil {
		return err
	}
	if len(f) > 0 {
		return problem(http.StatusUnprocessableEntity, "this call takes no body")
	}
	return nil
}
