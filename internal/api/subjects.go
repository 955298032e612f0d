package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/wire"
)

// Forgetter deletes the keys of subjects of sealed notices.
type Forgetter interface {
	// ForgetSubject may be repeated after an error.
	ForgetSubject(ctx context.Context, of seal.Subject, client string) (jobs.Forgotten, error)
	// LiftSubject reports whether the subject was forgotten.
	LiftSubject(ctx context.Context, of seal.Subject) (bool, error)
}

// ForgottenSubject answers DELETE /v1/subjects/{subject}.
type ForgottenSubject struct {
	Subject     string            `json:"subject" example:"audience:m17"`
	ForgottenAt codec.Stamp       `json:"forgotten_at" doc:"When the subject was first forgotten, since it was lifted last."`
	Keys        int               `json:"keys" doc:"Data keys that this call has deleted, each counted in every shard that had it."`
	Job         string            `json:"job" doc:"The id of the job that cancels the pending notices of the subject."`
	Missing     []MissingInstance `json:"missing,omitempty" doc:"Instances that are not known to have dropped the keys: unresponsive, or of an earlier version. An unresponsive one drops them 4 seconds after it has read them, by its own clock. Repeat the call until this is absent."`
}

// MissingInstance is an instance that may have deleted keys in its memory.
type MissingInstance struct {
	ID    string      `json:"id"`
	Label string      `json:"label"`
	State string      `json:"state" enum:"living,leaving,silent"`
	Seen  codec.Stamp `json:"seen" doc:"Its last heartbeat, by Redis's clock."`
}

// LiftedSubject answers POST /v1/subjects/{subject}/lift.
type LiftedSubject struct {
	Subject string `json:"subject" example:"audience:m17"`
	Changed bool   `json:"changed" doc:"false: the subject was not forgotten."`
}

// subjectOf checks the subject of a path. prefix is that of its notices' keys, empty = any.
func subjectOf(at site) (of seal.Subject, prefix string, err error) {
	var f codec.Faults
	bad := func(format string, a ...any) (seal.Subject, string, error) {
		f.Add("path.subject", codec.Clip(at.param, 100), format, a...)
		return "", "", refusal(f)
	}

	kind, name, _ := strings.Cut(at.param, ":")
	if kind == "audience" && name != "" {
		if err := notice.CheckAudience(name); err != nil {
			return bad("%s", codec.Clip(err.Error(), 200))
		}
		if at.Prefix != "" {
			return "", "", problem(http.StatusForbidden, "an audience concerns all keys, and this client has a prefix")
		}

		return seal.AudienceSubject(name), "", nil
	}

	app, rest, _ := strings.Cut(name, ":")
	module, id, _ := strings.Cut(rest, ":")
	key := app + ":" + module + ":any:" + id
	switch {
	case kind != "id" || !keys.Valid(key):
		return bad("want audience:<audience> or id:app:module:<id>")
	case keys.OrderKey(key) != name:
		return bad("want the id without ~ and a number: id:%s", keys.OrderKey(key))
	}

	if prefix = app + ":" + module; !at.Owns(prefix) {
		return "", "", problem(http.StatusForbidden, "an id concerns all keys under %s, and this client may only change those under %s", prefix,
			at.Prefix)
	}

	return seal.IDSubject(name), prefix, nil
}

// forgetSubject serves DELETE /v1/subjects/{subject}.
func (a *api) forgetSubject(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}

	of, prefix, err := subjectOf(at)
	if err != nil {
		return err
	}

	done, err := a.forgetter.ForgetSubject(r.Context(), of, at.Name)
	a.operated(r, at, audit.Entry{Action: audit.Forget, Prefix: prefix, Detail: fmt.Sprintf("%s: %s, %s", of,
		notice.Count(done.Keys, "data key"), done.Job.ID)}, err)
	if full := (*jobs.FullError)(nil); errors.As(err, &full) {
		return problem(http.StatusConflict, "the keys are deleted, and the pending notices are not cancelled yet: %v. Repeat the call", full)
	}

	if errors.Is(err, jobs.ErrHistoryElsewhere) {
		return problem(http.StatusConflict, "%v", err)
	}

	if errors.Is(err, jobs.ErrHistoryKeeps) {
		a.log.Warn("cannot delete the keys of a forgotten subject in the history", zap.String("subject", string(of)), zap.Error(err))
		return problem(http.StatusServiceUnavailable, "the keys are deleted in Redis, but not in the history, whose database does not answer; "+
			"its entries can still be read, and the pending notices are not cancelled yet. Repeat the call").with("Retry-After", "5")
	}

	if errors.Is(err, wire.ErrUnconfirmed) {
		return problem(http.StatusServiceUnavailable, "the keys are deleted, but that is not confirmed as NOTIFIER_DURABILITY requires; "+
			"repeat the call").as(unconfirmed).with("Retry-After", "1")
	}

	if err != nil {
		return err
	}

	out := ForgottenSubject{Subject: string(of), ForgottenAt: codec.Stamp(done.At), Keys: done.Keys, Job: done.Job.ID}
	for _, x := range done.Missing {
		out.Missing = append(out.Missing, MissingInstance{x.ID, x.Label, string(x.State), codec.Stamp(x.Seen)})
	}

	return writeJSON(w, http.StatusOK, out)
}

// liftSubject serves POST /v1/subjects/{subject}/lift.
func (a *api) liftSubject(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}

	of, prefix, err := subjectOf(at)
	if err != nil {
		return err
	}

	changed, err := a.forgetter.LiftSubject(r.Context(), of)
	if changed || err != nil {
		a.operated(r, at, audit.Entry{Action: audit.ForgetLift, Prefix: prefix, Detail: string(of)}, err)
	}

	switch {
	case errors.Is(err, jobs.ErrHistoryElsewhere):
		return problem(http.StatusConflict, "%v", err)
	case errors.Is(err, history.ErrUnavailable):
		return a.historyProblem(err)
	}

	if err != nil {
		return err
	}

	return writeJSON(w, http.StatusOK, LiftedSubject{string(of), changed})
}
