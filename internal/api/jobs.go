package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Jobber starts the jobs that change notices in Redis. A Redirector lists, reads, stops and resumes them.
type Jobber interface {
	// PlanJob counts the notices that a job would change.
	PlanJob(ctx context.Context, r jobs.Job) (jobs.JobPlan, error)
	// MakeJob returns a *jobs.FullError if the client has used up its share.
	MakeJob(ctx context.Context, r jobs.Job) (jobs.Job, error)
}

// Limits of the rate of a job, in changes a second.
const (
	defaultJobRate = 100
	maxJobRate     = 10_000
)

// JobRequest is the body of POST /v1/jobs.
type JobRequest struct {
	Kind   string        `json:"kind" enum:"cancel,redrive,purge" doc:"cancel: cancel pending notices. redrive: schedule dead letters again, due now. purge: cancel dead letters."`
	Prefix string        `json:"prefix,omitempty" doc:"app, app:module or app:module:type: the prefix of the keys. A cancel needs it; otherwise the client's own prefix if absent." example:"app1:orders"`
	Route  string        `json:"route,omitempty" doc:"Only notices of the route with this name."`
	Host   string        `json:"host,omitempty" doc:"Only notices for this host." example:"shop.example"`
	Reason notice.Reason `json:"reason,omitempty" doc:"Only dead letters that died for this reason." example:"status_5xx"`
	Status int           `json:"status,omitempty" doc:"With reason: the HTTP status of the last attempt." example:"503"`
	Since  codec.Stamp   `json:"since,omitzero" doc:"Only notices due from this time on; of a redrive or purge: that died from it on."`
	Until  codec.Stamp   `json:"until,omitzero" doc:"Only notices due, or that died, before this time."`
	Rate   string        `json:"rate,omitempty" doc:"Changes in a second, a minute or an hour; 100/s if absent." example:"100/s"`
	DryRun bool          `json:"dry_run,omitempty" doc:"true: count and change nothing."`
}

// Job is a bulk change with its progress.
type Job struct {
	ID        string        `json:"id,omitempty" doc:"Absent in a dry run."`
	Kind      string        `json:"kind" enum:"cancel,redrive,purge"`
	State     string        `json:"state,omitempty" enum:"running,stopped,done,failed" doc:"Absent in a dry run."`
	Problem   string        `json:"problem,omitempty" doc:"Why it failed, or why a running one cannot reach some notices and visits them again."`
	Client    string        `json:"client,omitempty" doc:"The client that started it."`
	Prefix    string        `json:"prefix,omitempty"`
	Route     string        `json:"route,omitempty"`
	Subject   string        `json:"subject,omitempty" doc:"The forgotten subject whose notices it cancels."`
	Host      string        `json:"host,omitempty"`
	Reason    notice.Reason `json:"reason,omitempty"`
	Status    int           `json:"status,omitempty"`
	Since     codec.Stamp   `json:"since,omitzero"`
	Until     codec.Stamp   `json:"until,omitzero"`
	Rate      string        `json:"rate"`
	Found     *int64        `json:"found,omitempty" doc:"Notices that match. Only in a dry run."`
	Complete  *bool         `json:"complete,omitempty" doc:"false: more notices may match, because not all were read within 5 seconds. Only in a dry run."`
	Changed   int64         `json:"changed" doc:"Notices changed so far."`
	Claimed   int64         `json:"claimed" doc:"Matching notices that a cancel has left, because an attempt was in flight."`
	Refused   int64         `json:"refused" doc:"Dead letters that a redrive has left, because they have expired."`
	Seen      int64         `json:"seen" doc:"Notices read so far."`
	Total     int64         `json:"total" doc:"Notices to read: all pending ones, or all dead letters, of the routes under the prefix."`
	CreatedAt codec.Stamp   `json:"created_at,omitzero"`
	ChangedAt codec.Stamp   `json:"changed_at,omitzero"`
}

// Jobs answers GET /v1/jobs.
type Jobs struct {
	Items []Job `json:"items" doc:"At most 100, latest first."`
}

func (a *api) viewJob(r *jobs.Job) Job {
	v := Job{ID: r.ID, Kind: r.Kind, State: r.State, Problem: r.Reason, Client: r.Client, Prefix: r.Prefix, Route: r.Route,
		Subject: string(r.Subject), Host: r.Host,
		Reason: r.Cause, Status: r.Status, Since: codec.Stamp(r.Since), Until: codec.Stamp(r.Until), Rate: spellRate(r.Rate),
		Changed: r.Redirected, Claimed: r.Claimed, Refused: r.Refused, Seen: min(r.Seen, r.Total), Total: r.Total,
		CreatedAt: codec.Stamp(r.Made), ChangedAt: codec.Stamp(r.Changed)}
	if rt := a.routes.Prefix(r.Route); rt != nil && r.Route != "" {
		v.Route = rt.Name
	}

	return v
}

// makeJob serves POST /v1/jobs.
func (a *api) makeJob(w http.ResponseWriter, r *http.Request, at site) error {
	var q JobRequest
	var f codec.Faults
	if err := readObject(w, r, &q, &f); err != nil {
		return err
	}

	x := a.jobOf(&q, at.caller, &f)
	if p := refusal(f); p != nil {
		return p
	}

	narrowed := store.Query{Prefix: x.Prefix}
	if !at.narrow(&narrowed) {
		return problem(http.StatusForbidden, "this client may only change keys under %s", at.Prefix)
	}

	x.Prefix, x.Client = narrowed.Prefix, at.Name
	if q.DryRun {
		plan, err := a.jobber.PlanJob(r.Context(), x)
		if err != nil {
			return err
		}

		v := a.viewJob(&x)
		v.Claimed, v.Refused, v.Found, v.Complete = plan.InFlight, plan.Refused, &plan.Found, &plan.Complete
		return writeJSON(w, http.StatusOK, v)
	}

	made, err := a.jobber.MakeJob(r.Context(), x)
	if full := (*jobs.FullError)(nil); errors.As(err, &full) {
		return problem(http.StatusConflict, "%v", full)
	}

	a.operated(r, at, audit.Entry{Action: jobActions[x.Kind], Prefix: x.Prefix, Detail: describeJob(&made)}, err)
	if err != nil {
		return err
	}

	return writeJSON(w, http.StatusCreated, a.viewJob(&made))
}

// jobActions are the actions of jobs in the audit.
var jobActions = map[string]audit.Action{jobs.KindCancel: audit.CancelMany, jobs.KindRedrive: audit.Redrive, jobs.KindPurge: audit.Purge}

// describeJob describes a job for the audit.
func describeJob(r *jobs.Job) string {
	text := r.ID + ": " + r.Kind
	for _, x := range []struct{ name, value string }{{"route", r.Route}, {"host", r.Host}, {"reason", notice.Cause{Reason: r.Cause,
		Status: r.Status}.String()}, {"since", instantText(r.Since)}, {"until", instantText(r.Until)}} {
		if x.value != "" {
			text += ", " + x.name + " " + x.value
		}
	}

	return text + ", at " + spellRate(r.Rate)
}

func instantText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// jobOf checks a request and makes its job.
func (a *api) jobOf(q *JobRequest, c caller, f *codec.Faults) jobs.Job {
	x := jobs.Job{Kind: q.Kind, Filter: jobs.Filter{Since: time.Time(q.Since),
		Until: time.Time(q.Until), Cause: q.Reason, Status: q.Status, Rate: defaultJobRate}}
	if len(*f) > 0 {
		return x
	}

	x.Prefix, x.Host = prefixMember(q.Prefix, f), hostMember(q.Host, f)
	if q.Rate != "" {
		rate, err := notice.ParseRate(q.Rate)
		if x.Rate = rate; err != nil || rate > maxJobRate {
			f.Add("body.rate", codec.Clip(q.Rate, 100), "want a rate such as 100/s or 600/m, at most %d/s", maxJobRate)
		}
	}

	cause := notice.Cause{Reason: q.Reason, Status: q.Status}
	switch {
	case q.Kind == "":
		f.Add("body.kind", nil, "is missing; want cancel, redrive or purge")
	case jobActions[q.Kind] == "":
		f.Add("body.kind", codec.Clip(q.Kind, 60), "want cancel, redrive or purge")
	case q.Kind == jobs.KindCancel && x.Prefix == "":
		f.Add("body.prefix", nil, "is missing; a cancel needs the prefix of the keys")
	case q.Kind == jobs.KindCancel && q.Reason != "":
		f.Add("body.reason", nil, "is for redrive and purge: pending notices have no reason of death")
	case q.Reason != "" && !slices.Contains(notice.Reasons, q.Reason):
		f.Add("body.reason", codec.Clip(string(q.Reason), 60), "want one of %s", codec.Join(notice.Reasons))
	case q.Status != 0 && notice.CauseOf(cause.Code()) != cause:
		f.Add("body.status", q.Status, "want a status that the reason can have, such as 503 with the reason status_5xx")
	case !x.Since.IsZero() && !x.Until.IsZero() && !x.Since.Before(x.Until):
		f.Add("body.until", nil, "is not after since")
	}

	if q.Route != "" {
		route, err := a.routeNamed(q.Route, c)
		if err != nil {
			f.Add("body.route", codec.Clip(q.Route, 60), "no route has this name")
			return x
		}

		x.Route = route.Prefix
	}

	return x
}

// jobCalls are the calls on the redirects, or on all other jobs. T is the answer's form of one of them.
type jobCalls[T any] struct {
	*api
	redirects   bool
	what        string // in errors
	stops, goes audit.Action
	view        func(*jobs.Job) T
}

func (a *api) redirectCalls() jobCalls[Redirect] {
	return jobCalls[Redirect]{a, true, "redirect", audit.RedirectStop, audit.RedirectGoOn, viewRedirect}
}

func (a *api) otherJobCalls() jobCalls[Job] {
	return jobCalls[Job]{a, false, "job", audit.JobStop, audit.JobResume, a.viewJob}
}

// list serves GET /v1/redirects and GET /v1/jobs.
func (c jobCalls[T]) list(w http.ResponseWriter, r *http.Request, at site) error {
	if err := noQuery(r); err != nil {
		return err
	}

	list, err := c.redirector.Redirects(r.Context())
	if err != nil {
		return err
	}

	out := struct {
		Items []T `json:"items"`
	}{[]T{}}
	for i := range list {
		if c.owns(&list[i], at) {
			out.Items = append(out.Items, c.view(&list[i]))
		}
	}

	return writeJSON(w, http.StatusOK, out)
}

// owns reports whether these calls are for a job, and it is within the caller's scope.
func (c jobCalls[T]) owns(x *jobs.Job, at site) bool {
	return x.ID != "" && x.Redirects() == c.redirects && at.Owns(x.Prefix)
}

// the returns the job that a path names, if it is within the caller's scope.
func (c jobCalls[T]) the(r *http.Request, at site) (jobs.Job, error) {
	x, err := c.redirector.ReadRedirect(r.Context(), at.param)
	if err == nil && !c.owns(&x, at) {
		err = problem(http.StatusNotFound, "no %s has the id %s; the last 100 are kept, for 30 days after they end", c.what,
			codec.Clip(at.param, 60))
	}

	return x, err
}

// show serves GET /v1/redirects/{id} and GET /v1/jobs/{id}.
func (c jobCalls[T]) show(w http.ResponseWriter, r *http.Request, at site) error {
	if err := noQuery(r); err != nil {
		return err
	}

	x, err := c.the(r, at)
	if err != nil {
		return err
	}

	return writeJSON(w, http.StatusOK, c.view(&x))
}

// stop serves DELETE /v1/redirects/{id} and DELETE /v1/jobs/{id}.
func (c jobCalls[T]) stop(w http.ResponseWriter, r *http.Request, at site) error {
	return c.turn(w, r, at, c.stops)
}

// resume serves POST /v1/redirects/{id}/resume and POST /v1/jobs/{id}/resume.
func (c jobCalls[T]) resume(w http.ResponseWriter, r *http.Request, at site) error {
	return c.turn(w, r, at, c.goes)
}

func (c jobCalls[T]) turn(w http.ResponseWriter, r *http.Request, at site, action audit.Action) error {
	if err := empty(w, r); err != nil {
		return err
	}

	x, err := c.the(r, at)
	if err != nil {
		return err
	}

	do, want := c.redirector.StopRedirect, jobs.Stopped
	if action == c.goes {
		do, want = c.redirector.ResumeRedirect, jobs.Running
	}

	y, changed, err := do(r.Context(), x.ID)
	if changed || err != nil {
		c.operated(r, at, audit.Entry{Action: action, Prefix: x.Prefix, Detail: x.ID}, err)
	}

	switch {
	case err != nil:
		return err
	case !changed && y.State != want:
		return problem(http.StatusConflict, "the %s is %s", c.what, y.State)
	}

	return writeJSON(w, http.StatusOK, c.view(&y))
}
