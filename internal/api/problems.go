package api

import (
	"net/http"
	"slices"

	"notifier/internal/codec"
	"notifier/internal/problems"
)

// Problems answers GET /v1/problems.
type Problems struct {
	Items []FoundProblem `json:"items"`
	At    codec.Stamp    `json:"at" doc:"When the figures were read."`
	// Outdated says why parts of the figures are older.
	Outdated string `json:"outdated,omitempty" doc:"Why parts of the figures could not be read. The last ones that could be are used."`
	Unread   bool   `json:"unread,omitempty" doc:"true: parts of the figures were never read. Call again."`
	// Missing are the parts that Unread is about.
	Missing []string `json:"missing,omitempty" doc:"The parts that could not be read within 5 s: counts, minutes, instances, receivers, checks."`
}

// FoundProblem is one problem, or several with the same cause.
type FoundProblem struct {
	Kind     string        `json:"kind" doc:"New kinds may be added." example:"dead"`
	Severity string        `json:"severity" enum:"warning,error"`
	Title    string        `json:"title" example:"orders: 5,000 dead letters in the last hour, HTTP 500"`
	Details  string        `json:"details,omitempty" example:"since 03:12:05 UTC · last 03:40:11 UTC"`
	Route    string        `json:"route,omitempty" doc:"The route's name; for a prefix without a configured route, the prefix." example:"orders"`
	Prefix   string        `json:"prefix,omitempty" example:"app1:orders"`
	Reason   string        `json:"reason,omitempty" doc:"Of the deaths, or of the last attempts of failing receivers." example:"status_5xx"`
	Status   int           `json:"status,omitempty" doc:"The HTTP status that belongs to the reason." example:"500"`
	Count    int64         `json:"count,omitempty" doc:"Notices or receivers, according to the kind. Absent: not counted."`
	Hosts    int           `json:"hosts,omitempty" doc:"Receivers with the problem. Absent: not known."`
	Since    codec.Stamp   `json:"since,omitzero"`
	Last     codec.Stamp   `json:"last,omitzero" doc:"When it was last seen."`
	Examples []string      `json:"examples,omitempty" doc:"Some receivers or instances."`
	Changed  *RouteChanged `json:"changed,omitempty" doc:"The change of the route's settings after which the problem began."`
	Command  string        `json:"command,omitempty" doc:"A command that shows or ends the problem." example:"notifier redrive --route orders --reason status_5xx --status 500 --rate 100/s"`
	Page     string        `json:"page,omitempty" doc:"Its page of the dashboard. Absent if the dashboard is off." example:"/ui/dead/group?reason=status_5xx&route=orders&status=500"`
}

// RouteChanged is a change of the settings of a route.
type RouteChanged struct {
	At       codec.Stamp `json:"at"`
	Settings []string    `json:"settings,omitempty" doc:"The names of the settings that differ." example:"[\"ack\"]"`
	Page     string      `json:"page,omitempty" doc:"The page of the dashboard with the change, for readers who may see it."`
}

var problemParams = []parameter{paramRoute}

// problems serves GET /v1/problems.
func (a *api) problems(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, problemParams)
	if p != nil {
		return p
	}

	only := values.Get("route")
	if only != "" {
		if _, err := a.routeNamed(only, at.caller); err != nil {
			return err
		}
	}

	b, missing := problems.Await(r.Context(), a.sampler, at.Caller, problems.AwaitTime)
	out := Problems{Items: []FoundProblem{}, At: codec.Stamp(b.At), Unread: len(missing) > 0, Missing: missing}
	if b.Err != nil {
		out.Outdated = explained(b.Err).String()
	}

	findings, _ := a.sampler.Examiner.Troubles()
	for _, x := range problems.Find(problems.Options{Board: b, Routes: a.routes, Reader: at.Caller, Findings: findings, Explain: explained}) {
		if only == "" || x.Route == only {
			out.Items = append(out.Items, a.problemOf(&x))
		}
	}

	return writeJSON(w, http.StatusOK, out)
}

// explained returns the text of an error for callers.
func explained(err error) problems.Text {
	if p := Explain(err); p != nil {
		return problems.Plain(p.Detail)
	}
	return problems.Plain("Internal error. The log of the service has the cause.")
}

func (a *api) problemOf(x *problems.Problem) FoundProblem {
	out := FoundProblem{Kind: string(x.Kind), Severity: string(x.Severity), Title: x.Title.String(), Details: x.Details(), Route: x.Route,
		Prefix: x.Prefix, Reason: string(x.Reason), Status: x.Status, Count: x.Count, Hosts: x.Hosts, Since: codec.Stamp(x.Since),
		Last: codec.Stamp(x.Last), Examples: x.Examples, Command: x.Command}
	if a.pages && len(x.Links) > 0 {
		out.Page = x.Links[0].Path
	}

	if !x.Changed.IsZero() {
		out.Changed = &RouteChanged{At: codec.Stamp(x.Changed), Settings: x.Settings}
		if i := slices.IndexFunc(x.Links, func(l problems.Link) bool { return l.Compares }); a.pages && i >= 0 {
			out.Changed.Page = x.Links[i].Path
		}
	}

	return out
}
