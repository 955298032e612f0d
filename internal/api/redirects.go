package api

import (
	"context"
	"errors"
	"net/http"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Redirector changes the address of pending notices.
type Redirector interface {
	// PlanRedirect counts the notices that a redirect would change.
	PlanRedirect(ctx context.Context, rule jobs.Rule) (jobs.JobPlan, error)
	// MakeRedirect returns a *jobs.FullError if the client has used up its share.
	MakeRedirect(ctx context.Context, rule jobs.Rule, client string) (jobs.Job, error)
	// Redirects returns all redirects, latest first.
	Redirects(ctx context.Context) ([]jobs.Job, error)
	// ReadRedirect returns a redirect with an empty ID if there is none.
	ReadRedirect(ctx context.Context, id string) (jobs.Job, error)
	// StopRedirect and ResumeRedirect report whether they changed the redirect.
	StopRedirect(ctx context.Context, id string) (r jobs.Job, ok bool, err error)
	ResumeRedirect(ctx context.Context, id string) (r jobs.Job, ok bool, err error)
}

// RedirectRequest is the body of POST /v1/redirects.
type RedirectRequest struct {
	From        codec.URL      `json:"from,omitempty" maxLength:"2048" doc:"The old address, without query: scheme, host and port are equal, and the path is equal or a prefix that ends before a slash. Either this or host." example:"https://shop.example/hooks"`
	To          codec.URL      `json:"to" maxLength:"2048" doc:"The new address, without query. The rest of the path and the query of each notice stay." example:"https://new.example/hooks"`
	Prefix      string         `json:"prefix,omitempty" doc:"app, app:module or app:module:type: the prefix of the keys; the client's own prefix if absent." example:"app1:orders"`
	Audience    codec.Audience `json:"audience,omitempty" maxLength:"128" doc:"Only notices of this audience."`
	Host        string         `json:"host,omitempty" doc:"Only notices of this host, as name or name:port. Without from: all its addresses, with their whole paths." example:"shop.example"`
	KeepHeaders bool           `json:"keep_headers,omitempty" doc:"true: keep the notices' Authorization, Cookie and Proxy-* headers, and users and passwords of urls, which are dropped if the host changes."`
	DryRun      bool           `json:"dry_run,omitempty" doc:"true: count and change nothing."`
}

// Redirect is a redirect with its progress.
type Redirect struct {
	ID          string      `json:"id,omitempty" doc:"The member redirect of changed notices. Absent in a dry run."`
	State       string      `json:"state,omitempty" enum:"running,stopped,done,failed" doc:"done: no notice with the old address is left. Absent in a dry run."`
	Reason      string      `json:"reason,omitempty" doc:"Why it failed, or why a running one cannot reach some notices and visits them again."`
	Client      string      `json:"client,omitempty" doc:"The client that started it."`
	From        string      `json:"from,omitempty"`
	To          string      `json:"to"`
	Prefix      string      `json:"prefix,omitempty"`
	Audience    string      `json:"audience,omitempty"`
	Host        string      `json:"host,omitempty"`
	KeepHeaders bool        `json:"keep_headers"`
	Found       *int64      `json:"found,omitempty" doc:"Notices that match. Only in a dry run."`
	Complete    *bool       `json:"complete,omitempty" doc:"false: more notices may match, because not all were read within 5 seconds. Only in a dry run."`
	Redirected  int64       `json:"redirected" doc:"Notices changed so far, without those that an attempt has changed as it began."`
	InFlight    int64       `json:"in_flight" doc:"In the answer that starts a redirect: matching notices that were claimed before, whose attempts may use the old address. Later: those claimed, or changed at the same time, in the running pass, which are visited again."`
	Refused     int64       `json:"refused" doc:"Matching notices whose route does not take the new address. They keep the old one."`
	Pass        int         `json:"pass,omitempty" doc:"The number of the running pass, or of the last one."`
	Seen        int64       `json:"seen" doc:"Pending notices read in this pass."`
	Total       int64       `json:"total" doc:"Pending notices at the start of this pass."`
	CreatedAt   codec.Stamp `json:"created_at,omitzero"`
	ChangedAt   codec.Stamp `json:"changed_at,omitzero"`
}

// Redirects answers GET /v1/redirects.
type Redirects struct {
	Items []Redirect `json:"items" doc:"At most 100, latest first."`
}

func viewRedirect(r *jobs.Job) Redirect {
	return Redirect{ID: r.ID, State: r.State, Reason: r.Reason, Client: r.Client, From: r.From, To: r.To, Prefix: r.Prefix,
		Audience: r.Audience, Host: r.Host, KeepHeaders: r.KeepHeaders, Redirected: r.Redirected, InFlight: r.InFlight, Refused: r.Refused,
		Pass: r.Pass, Seen: min(r.Seen, r.Total), Total: r.Total, CreatedAt: codec.Stamp(r.Made), ChangedAt: codec.Stamp(r.Changed)}
}

// makeRedirect serves POST /v1/redirects.
func (a *api) makeRedirect(w http.ResponseWriter, r *http.Request, at site) error {
	var q RedirectRequest
	var f codec.Faults
	if err := readObject(w, r, &q, &f); err != nil {
		return err
	}

	rule := ruleOf(&q, &f)
	if p := refusal(f); p != nil {
		return p
	}

	narrowed := store.Query{Prefix: rule.Prefix}
	if !at.narrow(&narrowed) {
		return problem(http.StatusForbidden, "this client may only redirect keys under %s", at.Prefix)
	}

	rule.Prefix = narrowed.Prefix
	if q.DryRun {
		plan, err := a.redirector.PlanRedirect(r.Context(), rule)
		if err != nil {
			return err
		}

		v := viewRedirect(&jobs.Job{Rule: rule, InFlight: plan.InFlight, Refused: plan.Refused})
		v.Found, v.Complete = &plan.Found, &plan.Complete
		return writeJSON(w, http.StatusOK, v)
	}

	x, err := a.redirector.MakeRedirect(r.Context(), rule, at.Name)
	var full *jobs.FullError
	switch {
	case errors.Is(err, notice.ErrInvalid):
		return err
	case errors.As(err, &full):
		return problem(http.StatusConflict, "%v", full)
	}

	a.operated(r, at, audit.Entry{Action: audit.Redirect, Prefix: rule.Prefix, Detail: x.ID + ": " + describeRule(&rule)}, err)
	if err != nil {
		return err
	}

	return writeJSON(w, http.StatusCreated, viewRedirect(&x))
}

// describeRule describes a rule for the audit.
func describeRule(r *jobs.Rule) string {
	from := r.From
	if from == "" {
		from = "all addresses of " + r.Host
	} else if r.Host != "" {
		from += " at " + r.Host
	}

	if r.Audience != "" {
		from += ", audience " + r.Audience
	}

	return "from " + from + " to " + r.To
}

// ruleOf checks a request and makes its rule.
func ruleOf(q *RedirectRequest, f *codec.Faults) jobs.Rule {
	x := jobs.Rule{From: string(q.From), To: string(q.To), Audience: string(q.Audience),
		KeepHeaders: q.KeepHeaders}
	if len(*f) > 0 {
		return x
	}

	x.Prefix = prefixMember(q.Prefix, f)
	if q.Host != "" {
		x.Host = portMember(q.Host, f)
	}

	switch {
	case x.From == "" && q.Host == "":
		f.Add("body.from", nil, "is missing; want the old address, or host")
	case x.To == "":
		f.Add("body.to", nil, "is missing; want the new address")
	case x.From != "" && jobs.Same(x.From, x.To):
		f.Add("body.to", nil, "is the same as from")
	}

	if err := jobs.CheckBase(x.To); x.To != "" && err != nil {
		f.Add("body.to", nil, "%s", err)
	}

	if x.From != "" {
		if err := jobs.CheckBase(x.From); err != nil {
			f.Add("body.from", nil, "%s", err)
		}
	}

	return x
}
