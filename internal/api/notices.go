package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

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
	f, err := a.engine.Find(r.Context(), at.param)
	if gone(err) {
		return absent(at.param)
	}
	if err != nil {
		return err
	}
	return writeRaw(w, http.StatusOK, "application/json", append(a.appendNotice(nil, f, ""), '\n'))
}

// gone tells whether nothing is kept: a key that no route covers holds nothing
// either, and whoever asks for it is told the same.
func gone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnrouted)
}

// change is the frame of the calls that change one notice.
func (a *api) change(w http.ResponseWriter, at site, verb string, do func() (store.Change, error)) error {
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
	repeated := verb == "cancelled" && c.Before == notice.Cancelled
	if !c.Done && !repeated {
		p := problem(http.StatusConflict, "the notice is %s, so it cannot be %s: %s", c.Before, verb, hint(c.Before))
		p.State = string(c.Before)
		return p
	}
	more := `"changed":` + strconv.FormatBool(c.Done) + `,"before":"` + string(c.Before) + `","in_flight":` + strconv.FormatBool(c.InFlight)
	return writeRaw(w, http.StatusOK, "application/json", append(a.appendNotice(nil, c.Found, more), '\n'))
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
	return a.change(w, at, "cancelled", func() (store.Change, error) { return a.engine.Cancel(r.Context(), at.param) })
}

func (a *api) fire(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}
	return a.change(w, at, "fired", func() (store.Change, error) { return a.engine.Fire(r.Context(), at.param) })
}

func (a *api) redrive(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}
	return a.change(w, at, "redriven", func() (store.Change, error) { return a.engine.Redrive(r.Context(), at.param) })
}

// reschedule serves PATCH /v1/notices/{key}.
func (a *api) reschedule(w http.ResponseWriter, r *http.Request, at site) error {
	var due time.Time
	var delay time.Duration
	var given []string
	var f faults
	err := a.fields(w, r, []string{"delay", "due"}, &f, func(name, loc string, raw []byte) {
		given = append(given, name)
		a.timeField(&f, name, loc, raw, &due, &delay)
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
	return a.change(w, at, "rescheduled", func() (store.Change, error) {
		return a.engine.Reschedule(r.Context(), at.param, due, delay)
	})
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

// report is the frame of the calls by which a consumer ends an attempt.
func (a *api) report(w http.ResponseWriter, r *http.Request, at site, known []string, v store.Verdict,
	each func(f *faults, v *store.Verdict, name, loc string, raw []byte),
) error {
	attempt := 0
	var f faults
	err := a.fields(w, r, append([]string{"attempt"}, known...), &f, func(name, loc string, raw []byte) {
		switch name {
		case "attempt":
			n, err := strconv.Atoi(string(raw))
			if attempt = n; err != nil || n < 1 || n > 1<<31 {
				f.add(loc, shown(raw), "want the attempt's number, 1 or more, as the entry gave it")
			}
		case "response":
			v.Response = notice.Kept(stringField(&f, loc, raw))
		default:
			each(&f, &v, name, loc, raw)
		}
	})
	if err != nil {
		return err
	}
	if len(f) == 0 && attempt == 0 {
		f.add("body.attempt", nil, "is missing; want the attempt's number as the entry gave it")
	}
	if p := f.problem(); p != nil {
		return p
	}
	return a.change(w, at, "reported on as attempt "+strconv.Itoa(attempt), func() (store.Change, error) {
		return a.engine.Report(r.Context(), at.param, attempt, v)
	})
}

func (a *api) ack(w http.ResponseWriter, r *http.Request, at site) error {
	return a.report(w, r, at, []string{"response"}, store.Verdict{Outcome: notice.OutcomeDelivered}, nil)
}

func (a *api) nack(w http.ResponseWriter, r *http.Request, at site) error {
	return a.report(w, r, at, []string{"response", "permanent"},
		store.Verdict{Outcome: notice.OutcomeRetry, Reason: notice.ReasonRejected},
		func(f *faults, v *store.Verdict, _, loc string, raw []byte) {
			switch string(raw) {
			case "true":
				v.Outcome = notice.OutcomeDead
			case "false":
			default:
				f.add(loc, shown(raw), "want true or false")
			}
		})
}

func (a *api) putOff(w http.ResponseWriter, r *http.Request, at site) error {
	return a.report(w, r, at, []string{"response", "after"},
		store.Verdict{Outcome: notice.OutcomeDeferred, Reason: notice.ReasonLocked},
		func(f *faults, v *store.Verdict, _, loc string, raw []byte) {
			v.After, _ = durationField(f, loc, raw)
		})
}

// empty refuses a body and a query where neither has a meaning. White space
// and an empty object are let pass: many clients send them with every POST.
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
	if len(skipSpace(data)) == 0 {
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
