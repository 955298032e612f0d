package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/store"
	"notifier/internal/vault"
)

// Recurrer stores the definitions of recurring notices. Calls on a definition that does not exist return store.ErrNotDefined.
type Recurrer interface {
	// Check returns all faults of a definition. The error is store.ErrUnrouted if no route covers its key.
	Check(ctx context.Context, d *recur.Definition) ([]recur.Fault, error)
	// Put stores a definition, in place of the one of the same key.
	Put(ctx context.Context, d recur.Definition) (x recur.Recurrence, created bool, err error)
	Get(ctx context.Context, key string) (recur.Recurrence, error)
	// List returns up to n definitions under a prefix ("" = all) in the order of their keys, those after the key after.
	List(ctx context.Context, prefix, after string, n int) (list []recur.Recurrence, more bool, err error)
	Delete(ctx context.Context, key string) error
	Pause(ctx context.Context, key string) (recur.Recurrence, error)
	Resume(ctx context.Context, key string) (recur.Recurrence, error)
	// Open returns a recurring notice with its content opened, for a caller who may read it. Without the key it stays sealed. forgotten is
	// when its subject was forgotten; zero = it was not.
	Open(ctx context.Context, x recur.Recurrence) (opened recur.Recurrence, forgotten time.Time)
	// Forgotten returns that time only, for a caller who may not read the content.
	Forgotten(ctx context.Context, x *recur.Recurrence) time.Time
	// RunNow stores a notice that is due now, besides those for ticks.
	RunNow(ctx context.Context, key string) (store.Reply, error)
}

var (
	recurrenceParams     = []parameter{paramPrefix, paramLimit, paramCursor}
	paramRecurrenceDry   = parameter{"dry_run", "true: check the recurrence, answer with its next ticks, and store nothing.", "true"}
	recurrencePutParams  = []parameter{paramRecurrenceDry}
	errNoRecurrences     = problem(http.StatusNotFound, "this service has no recurring notices")
	errRecurrenceChanges = problem(http.StatusConflict, "the recurrence is being changed by many calls at the same time; repeat the call")
	errRecurrenceLost    = problem(http.StatusConflict, "Redis has lost the key of the sealed content, and nothing was scheduled; store the "+
		"recurrence again with PUT")
)

// absentRecurrence is the answer for a key without a recurrence.
func absentRecurrence(key string) *Problem {
	return problem(http.StatusNotFound, "no recurring notice has the key %s; GET /v1/recurrences lists them", codec.Clip(key, 300))
}

// checkRecurrence checks a key of a path. Outside the caller's scope, the answer is that of a key without a recurrence.
func (a *api) checkRecurrence(at site) error {
	if a.recurrer == nil {
		return errNoRecurrences
	}

	if err := recur.CheckKey(at.param); err != nil {
		var f codec.Faults
		f.AddErr("path.key", codec.Clip(at.param, 100), err)
		return refusal(f)
	}

	if !at.Covers(at.param) {
		return absentRecurrence(at.param)
	}

	return nil
}

// recurrenceProblem returns the answer to an error of a call on a recurrence.
func recurrenceProblem(key string, err error) error {
	switch {
	case gone(err):
		return absentRecurrence(key)
	case errors.Is(err, store.ErrOtherState):
		return errRecurrenceChanges
	case errors.Is(err, vault.ErrUnknownKey):
		return errRecurrenceLost
	}
	return err
}

// wholeRecurrence shows a recurrence with its body.
func (a *api) wholeRecurrence(ctx context.Context, at site, x *recur.Recurrence) Recurrence {
	v, c := a.openRecurrence(ctx, at, x, a.now())
	v.Payload = payloadOf(&notice.Notice{Content: c}, c.InlineJSON())
	return v
}

// openRecurrence shows a recurrence without its body, and returns its content, which it opens if the caller may read it. The audit then
// names it.
func (a *api) openRecurrence(ctx context.Context, at site, x *recur.Recurrence, now time.Time) (Recurrence, notice.Content) {
	shown, forgotten := *x, time.Time{}
	switch {
	case x.Content.Sealed == "" || at.sealed:
	case !at.Role.Includes(auth.Operate):
		forgotten = a.recurrer.Forgotten(ctx, x)
	default:
		if shown, forgotten = a.recurrer.Open(ctx, *x); shown.Content.Sealed == "" {
			at.call.opened = append(at.call.opened, x.Key)
		}
	}

	v := a.viewRecurrence(&shown, a.definedBy(ctx, at, x), now)
	v.Sealed, v.ForgottenAt = x.Content.Sealed != "", codec.Stamp(forgotten)
	return v, shown.Content
}

// definedBy returns the client that stored a recurrence, as scheduledBy does.
func (a *api) definedBy(ctx context.Context, at site, x *recur.Recurrence) string {
	return a.scheduledBy(ctx, at.caller, &notice.Notice{Client: x.Client})
}

// recurrences serves GET /v1/recurrences.
func (a *api) recurrences(w http.ResponseWriter, r *http.Request, at site) error {
	if a.recurrer == nil {
		return errNoRecurrences
	}

	values, p := queryOf(r, recurrenceParams)
	if p != nil {
		return p
	}

	var f codec.Faults
	q := a.filter(values, &f)
	q.Limit = limitOf(values, &f)
	if p := refusal(f); p != nil {
		return p
	}

	cursors := a.cursors("recurrences", at, values)
	after, err := cursors.open(r.Context(), values.Get("cursor"))
	if err != nil {
		return err
	}

	out := Recurrences{Items: []Recurrence{}}
	if !at.narrow(&q) {
		return answerObject(w, http.StatusOK, &out)
	}

	list, more, err := a.recurrer.List(r.Context(), q.Prefix, after, q.Limit)
	if err != nil {
		return err
	}

	now := a.now()
	for i := range list {
		v, _ := a.openRecurrence(r.Context(), at, &list[i], now)
		out.Items = append(out.Items, v)
	}

	if more && len(list) > 0 {
		if out.Cursor, err = cursors.seal(r.Context(), list[len(list)-1].Key); err != nil {
			return err
		}
	}

	return answerObject(w, http.StatusOK, &out)
}

// showRecurrence serves GET /v1/recurrences/{key}.
func (a *api) showRecurrence(w http.ResponseWriter, r *http.Request, at site) error {
	if err := errors.Join(noQuery(r), a.checkRecurrence(at)); err != nil {
		return err
	}

	x, err := a.recurrer.Get(r.Context(), at.param)
	if err != nil {
		return recurrenceProblem(at.param, err)
	}

	v := a.wholeRecurrence(r.Context(), at, &x)
	return answerObject(w, http.StatusOK, &v)
}

// putRecurrence serves PUT /v1/recurrences/{key}.
func (a *api) putRecurrence(w http.ResponseWriter, r *http.Request, at site) error {
	if a.recurrer == nil {
		return errNoRecurrences
	}

	values, p := queryOf(r, recurrencePutParams)
	if p != nil {
		return p
	}

	var f codec.Faults
	dry := dryRunOf(values, &f)
	data, err := readBody(w, r, a.itemLimit())
	if err != nil {
		return err
	}

	d, err := a.parseRecurrence(r.Context(), data, at, f)
	if err != nil {
		return err
	}

	if dry {
		x := recur.Recurrence{Definition: d}
		return answerObject(w, http.StatusOK, &RecurrenceAnswer{Recurrence: a.wholeRecurrence(r.Context(), at, &x)})
	}

	d.Client = a.clientNumber(r.Context(), at.caller)
	x, created, err := a.recurrer.Put(r.Context(), d)
	a.operated(r, at, audit.Entry{Action: audit.Recur, Key: at.param, Detail: Ticks(d.Spec)}, err)
	if err != nil {
		return recurrenceProblem(at.param, err)
	}

	status := http.StatusOK
	if created {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/recurrences/"+at.param)
	}

	at.sealed = true // the caller has read nothing
	return answerObject(w, status, &RecurrenceAnswer{a.wholeRecurrence(r.Context(), at, &x), created})
}

// parseRecurrence reads and checks a request. f has the faults so far.
func (a *api) parseRecurrence(ctx context.Context, data []byte, at site, f codec.Faults) (d recur.Definition, err error) {
	var q RecurrenceRequest
	if err := codec.Read(data, "body.", &q, &f); err != nil {
		return d, notJSON(err)
	}

	given := q.notice()
	it := item{req: store.Request{Key: at.param, Content: given.Given()}}
	if err := a.takeBody(&it, &given, "body.", &f); err != nil {
		return d, err
	}

	if keys.Valid(at.param) && !at.Covers(at.param) {
		return d, problem(http.StatusForbidden, "this client may only store recurring notices under %s:", at.Prefix)
	}

	d = q.definition(at.param)
	d.Content = it.req.Content
	faults, err := a.recurrer.Check(ctx, &d)
	if errors.Is(err, store.ErrUnrouted) {
		f.Add("path.key", codec.Clip(at.param, 100), "%s", a.unrouted(at.caller))
		return d, refusal(f)
	}

	if err != nil {
		return d, err
	}

	unread := f // fields that could not be read have one fault
	for _, x := range faults {
		location := strings.TrimSuffix("body."+x.Field, ".")
		if x.Field == "key" {
			location = "path.key"
		}

		if !slices.ContainsFunc(unread, func(w codec.Wrong) bool { return w.Location == location }) {
			f.Add(location, nil, "%s", strings.TrimPrefix(codec.Clip(x.Err.Error(), 400), "invalid: "))
		}
	}

	return d, asError(refusal(f))
}

// deleteRecurrence serves DELETE /v1/recurrences/{key}.
func (a *api) deleteRecurrence(w http.ResponseWriter, r *http.Request, at site) error {
	if err := errors.Join(empty(w, r), a.checkRecurrence(at)); err != nil {
		return err
	}

	err := a.recurrer.Delete(r.Context(), at.param)
	a.operated(r, at, audit.Entry{Action: audit.RecurDelete, Key: at.param}, err)
	if err != nil {
		return recurrenceProblem(at.param, err)
	}

	return answerObject(w, http.StatusOK, &RecurrenceDeleted{at.param, true})
}

// pauseRecurrence serves POST /v1/recurrences/{key}/pause.
func (a *api) pauseRecurrence(w http.ResponseWriter, r *http.Request, at site) error {
	return a.turnRecurrence(w, r, at, audit.RecurPause)
}

// resumeRecurrence serves POST /v1/recurrences/{key}/resume.
func (a *api) resumeRecurrence(w http.ResponseWriter, r *http.Request, at site) error {
	return a.turnRecurrence(w, r, at, audit.RecurResume)
}

func (a *api) turnRecurrence(w http.ResponseWriter, r *http.Request, at site, action audit.Action) error {
	if err := errors.Join(empty(w, r), a.checkRecurrence(at)); err != nil {
		return err
	}

	turn := a.recurrer.Pause
	if action == audit.RecurResume {
		turn = a.recurrer.Resume
	}

	x, err := turn(r.Context(), at.param)
	a.operated(r, at, audit.Entry{Action: action, Key: at.param}, err)
	if err != nil {
		return recurrenceProblem(at.param, err)
	}

	v := a.wholeRecurrence(r.Context(), at, &x)
	return answerObject(w, http.StatusOK, &v)
}

// runRecurrence serves POST /v1/recurrences/{key}/run.
func (a *api) runRecurrence(w http.ResponseWriter, r *http.Request, at site) error {
	if err := errors.Join(empty(w, r), a.checkRecurrence(at)); err != nil {
		return err
	}

	made, err := a.recurrer.RunNow(r.Context(), at.param)
	e := audit.Entry{Action: audit.RecurRun, Key: at.param}
	if made.Found.Notice != nil {
		e.Detail = made.Key
	}

	a.operated(r, at, e, err)
	if err != nil {
		return recurrenceProblem(at.param, err)
	}

	w.Header().Set("Location", "/v1/notices/"+made.Key)
	v := a.wholeFor(r.Context(), at, &made.Found)
	return answerObject(w, http.StatusCreated, &v)
}
