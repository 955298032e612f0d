package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Replayer sends finalized notices again.
type Replayer interface {
	// Make starts a replay. With dry, it only returns the plan.
	Make(ctx context.Context, r *history.Replay, dry bool) (*jobs.ReplayPlan, error)
	// List returns the latest n replays of keys under a prefix, latest first.
	List(ctx context.Context, prefix string, n int) ([]history.Replay, error)
	// Find returns the caller's replay with a name, or at most two of other clients.
	Find(ctx context.Context, q history.ReplayQuery) ([]history.Replay, error)
	// Stop and Resume report whether they changed the replay with that ID.
	Stop(ctx context.Context, id string) (ok bool, err error)
	Resume(ctx context.Context, id string) (ok bool, err error)
}

const (
	defaultReplayRate = 50
	maxReplayRate     = 10_000
	mostReplays       = 100
)

// ReplayRequest is the body of POST /v1/replays.
type ReplayRequest struct {
	Since   codec.Stamp     `json:"since" doc:"Notices finalized from this time on." example:"2026-11-17T12:00:00Z"`
	Until   codec.Stamp     `json:"until,omitzero" doc:"Notices finalized before this time; now if absent." example:"2026-11-17T18:00:00Z"`
	Prefix  string          `json:"prefix,omitempty" doc:"app, app:module or app:module:type: the prefix of the keys; the client's own prefix if absent." example:"app1:orders"`
	Host    string          `json:"host,omitempty" doc:"The host that was called." example:"shop.example"`
	Outcome []notice.Ending `json:"outcome,omitempty" enum:"delivered,dead" doc:"The last outcome; both if absent. Cancelled and replaced notices are never sent."`
	Rate    string          `json:"rate,omitempty" doc:"Notices scheduled in a second, a minute or an hour; 50/s if absent." example:"50/s"`
	ID      *string         `json:"id,omitempty" maxLength:"64" doc:"Names the replay, in letters, digits, - and _, so that the call may be repeated: the same id and content is answered with 200 and the existing replay, other content with 409. Each client has separate ids. If absent, each call starts a replay." example:"shop-outage-1117"`
	NewIDs  bool            `json:"new_ids,omitempty" doc:"true: each notice gets a new webhook-id, so that receivers do not treat it as a duplicate."`
	DryRun  bool            `json:"dry_run,omitempty" doc:"true: count and send nothing."`
}

// Replay is a replay with its progress.
type Replay struct {
	ID        string           `json:"id,omitempty" doc:"The value of the header notifier-replay of its callbacks. Absent in a dry run."`
	State     string           `json:"state,omitempty" enum:"running,stopped,done,failed" doc:"done: all notices are scheduled; the history has their outcomes. Absent in a dry run."`
	Reason    string           `json:"reason,omitempty" doc:"Why the replay failed."`
	Client    string           `json:"client,omitempty" doc:"The client that started it."`
	Since     codec.Stamp      `json:"since"`
	Until     codec.Stamp      `json:"until"`
	Prefix    string           `json:"prefix,omitempty"`
	Host      string           `json:"host,omitempty"`
	Outcome   []string         `json:"outcome"`
	Rate      string           `json:"rate" example:"50/s"`
	NewIDs    bool             `json:"new_ids"`
	Found     int64            `json:"found" doc:"Notices that match."`
	Refused   map[string]int64 `json:"refused" doc:"Matching notices that cannot be sent again, by reason: body_hashed, body_dropped, secret_not_kept, forgotten, key_lost, unreadable, no_route, unfit."`
	Total     int64            `json:"total" doc:"Matching notices that are sent: found without refused."`
	Sent      int64            `json:"sent" doc:"Notices scheduled so far."`
	Skipped   map[string]int64 `json:"skipped" doc:"Notices skipped at their turn, by reason: pending (the key has a pending notice), dead (the key has the dead letter of another notice), cancelled (since), gone (no longer in the history), or as in refused."`
	Left      int64            `json:"left" doc:"Notices that are still to be scheduled."`
	Differs   []ReplayDiffers  `json:"differs,omitempty" doc:"Notices that the present routes send to another host than before. Only in the answer that starts a replay, and in a dry run."`
	Hosts     []ReplayHost     `json:"hosts,omitempty" doc:"The hosts that are called, those with the most notices first, at most 20. Only in the answer that starts a replay, and in a dry run."`
	CreatedAt codec.Stamp      `json:"created_at,omitzero"`
	ChangedAt codec.Stamp      `json:"changed_at,omitzero"`
}

// ReplayHost is the number of notices for one host.
type ReplayHost struct {
	Host    string `json:"host" doc:"Empty for a list or stream."`
	Notices int64  `json:"notices"`
}

// ReplayDiffers is the number of notices of a route that go to another host than before.
type ReplayDiffers struct {
	Route   string `json:"route" doc:"The name of the present route."`
	Then    string `json:"then" doc:"The host that was called; empty for a list or stream."`
	Now     string `json:"now" doc:"The host that will be called; empty for a list or stream."`
	Notices int64  `json:"notices"`
}

// Replays answers GET /v1/replays.
type Replays struct {
	Items []Replay `json:"items" doc:"At most 100, latest first."`
}

func viewReplay(r *history.Replay) Replay {
	v := Replay{ID: r.Name, State: string(r.State), Reason: r.Reason, Client: r.Client, Since: codec.Stamp(r.Since),
		Until: codec.Stamp(r.Until), Prefix: r.Prefix, Host: r.Host,
		Outcome: []string{}, Rate: spellRate(r.Rate), NewIDs: r.NewIDs, Refused: map[string]int64{}, Total: r.Total, Skipped: map[string]int64{},
		CreatedAt: codec.Stamp(r.Made), ChangedAt: codec.Stamp(r.Changed)}
	for _, o := range r.Outcomes {
		v.Outcome = append(v.Outcome, string(o))
	}

	v.Found = r.Total
	for why, n := range r.Refused {
		v.Refused[why] = n
		v.Found += n
	}

	v.Left = r.Total
	for result, n := range r.Counts {
		if v.Left -= n; result == jobs.Sent {
			v.Sent = n
		} else {
			v.Skipped[result] = n
		}
	}

	if v.Left = max(v.Left, 0); r.State == history.ReplayDone {
		v.Left = 0 // notices that Redis has lost are neither sent nor skipped
	}

	return v
}

// replayNames are the ids that callers may give. They contain no colon: see theReplay.
var replayNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// IsReplayName reports whether a caller may give a replay that id.
func IsReplayName(name string) bool { return replayNames.MatchString(name) }

func spellRate(perSecond float64) string {
	for _, u := range []struct {
		name string
		per  float64
	}{{"/s", 1}, {"/m", 60}} {
		if n := perSecond * u.per; n == float64(int64(n+.5)) {
			return strconv.FormatFloat(n, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(perSecond*3600, 'f', -1, 64) + "/h"
}

// makeReplay serves POST /v1/replays.
func (a *api) makeReplay(w http.ResponseWriter, r *http.Request, at site) error {
	var q ReplayRequest
	var f codec.Faults
	if err := readObject(w, r, &q, &f); err != nil {
		return err
	}

	x := replayOf(&q, at.Name, &f)
	if p := refusal(f); p != nil {
		return p
	}

	if a.replayer == nil {
		return noHistory()
	}

	narrowed := store.Query{Prefix: x.Prefix}
	if !at.narrow(&narrowed) {
		return problem(http.StatusForbidden, "this client may only replay keys under %s", at.Prefix)
	}

	x.Prefix = narrowed.Prefix
	return a.replay(w, r, at, x, q.DryRun)
}

// replayOf checks a request and makes its replay.
func replayOf(q *ReplayRequest, client string, f *codec.Faults) *history.Replay {
	id := history.NewReplayID()
	x := &history.Replay{ID: id, Name: id, Client: client, ReplayAbout: history.ReplayAbout{Rate: defaultReplayRate}}
	x.Since, x.Until, x.NewIDs, x.Outcomes = time.Time(q.Since), time.Time(q.Until), q.NewIDs, outcomesOf(q.Outcome)
	if q.ID != nil {
		x.Name = *q.ID
	}

	if !replayNames.MatchString(x.Name) {
		f.Add("body.id", codec.Clip(x.Name, 100), "want up to 64 letters, digits, - and _")
	}

	x.Prefix, x.Host = prefixMember(q.Prefix, f), hostMember(q.Host, f)
	if q.Rate != "" {
		rate, err := notice.ParseRate(q.Rate)
		if x.Rate = rate; err != nil || rate > maxReplayRate {
			f.Add("body.rate", codec.Clip(q.Rate, 100), "want a rate such as 50/s or 600/m, at most %d/s", maxReplayRate)
		}
	}

	switch {
	case x.Since.IsZero() && len(*f) == 0:
		f.Add("body.since", nil, "is missing; want the start of the window")
	case !x.Until.IsZero() && !x.Since.Before(x.Until) && len(*f) == 0:
		f.Add("body.until", nil, "is not after since")
	}

	return x
}

// hostMember checks the member host of a request; it may be empty.
func hostMember(given string, f *codec.Faults) string {
	if given == "" {
		return ""
	}

	host, err := notice.Host(given)
	if err != nil {
		f.Add("body.host", codec.Clip(given, 100), "want a host such as shop.example, without scheme, port and path")
	}

	return host
}

// outcomesOf returns the outcomes that a replay sends, sorted and without duplicates; by default all of them.
func outcomesOf(given []notice.Ending) []notice.Ending {
	if len(given) == 0 {
		return []notice.Ending{notice.EndDead, notice.EndDelivered}
	}
	return slices.Compact(slices.Sorted(slices.Values(given)))
}

func (a *api) replay(w http.ResponseWriter, r *http.Request, at site, x *history.Replay, dry bool) error {
	plan, err := a.replayer.Make(r.Context(), x, dry)
	refused := errors.Is(err, jobs.ErrEmptyReplay) || errors.Is(err, jobs.ErrLargeReplay) || errors.Is(err, jobs.ErrOtherReplay) ||
		errors.Is(err, history.ErrSlow)
	if known := err == nil && plan.Known; !dry && !refused && !known {
		a.operated(r, at, audit.Entry{Action: audit.Replay, Prefix: x.Prefix, Detail: fmt.Sprintf("%s: %s that ended since %s, until %s",
			x.Name, notice.Count(x.Total, "notice"), x.Since.Format(time.RFC3339), x.Until.Format(time.RFC3339))}, err)
	}

	switch {
	case errors.Is(err, jobs.ErrEmptyReplay), errors.Is(err, jobs.ErrLargeReplay):
		return problem(http.StatusUnprocessableEntity, "%s", err.Error())
	case errors.Is(err, jobs.ErrOtherReplay):
		return problem(http.StatusConflict, "this client has a replay with the id %s and other parameters; use another id", x.Name)
	case err != nil:
		return a.replayProblem(err)
	}

	v := viewReplay(plan.Replay)
	for _, h := range plan.Hosts {
		v.Hosts = append(v.Hosts, ReplayHost{h.Name, h.Notices})
	}

	for _, d := range plan.Differs {
		v.Differs = append(v.Differs, ReplayDiffers(d))
	}

	if dry {
		v.ID, v.State, v.CreatedAt, v.ChangedAt = "", "", codec.Stamp{}, codec.Stamp{}
		return writeJSON(w, http.StatusOK, v)
	}

	if plan.Known {
		return writeJSON(w, http.StatusOK, v)
	}

	return writeJSON(w, http.StatusCreated, v)
}

// replayProblem returns the answer to a failed replay call: Redis or the database has failed.
func (a *api) replayProblem(err error) error {
	if errors.Is(err, history.ErrUnavailable) || errors.Is(err, history.ErrNewer) || errors.Is(err, history.ErrForeign) ||
		errors.Is(err, history.ErrSlow) {
		return a.historyProblem(err)
	}
	return err
}

func noHistory() *Problem {
	return problem(http.StatusNotFound, "there is no history: NOTIFIER_HISTORY_URL is not set for this instance")
}

// replays serves GET /v1/replays.
func (a *api) replays(w http.ResponseWriter, r *http.Request, at site) error {
	if err := noQuery(r); err != nil {
		return err
	}
	if a.replayer == nil {
		return noHistory()
	}

	list, err := a.replayer.List(r.Context(), at.Prefix, mostReplays)
	if err != nil {
		return a.replayProblem(err)
	}

	out := Replays{Items: []Replay{}}
	for i := range list {
		out.Items = append(out.Items, viewReplay(&list[i]))
	}

	return writeJSON(w, http.StatusOK, out)
}

// theReplay returns the replay that a path names by id, or by client:id, if it is within the caller's
// scope. Each client has separate ids; the caller's replay is preferred to those of others.
func (a *api) theReplay(r *http.Request, at site) (history.Replay, error) {
	if a.replayer == nil {
		return history.Replay{}, noHistory()
	}

	q := history.ReplayQuery{Name: at.param, Prefix: at.Prefix, Caller: at.Name}
	if client, name, named := strings.Cut(at.param, ":"); named {
		q.Name, q.Whose = name, &client
	}

	list, err := a.replayer.Find(r.Context(), q)
	switch {
	case err != nil:
		return history.Replay{}, a.replayProblem(err)
	case len(list) == 0:
		return history.Replay{}, problem(http.StatusNotFound, "no replay has the id %s; replays are deleted 30 days after their last change",
			codec.Clip(at.param, 60))
	case len(list) > 1:
		return history.Replay{},
			problem(http.StatusConflict, "several clients have a replay with the id %s; want the client's name before it: %s:%s", q.Name,
				list[0].Client, q.Name)
	}

	return list[0], nil
}

// showReplay serves GET /v1/replays/{id}.
func (a *api) showReplay(w http.ResponseWriter, r *http.Request, at site) error {
	if err := noQuery(r); err != nil {
		return err
	}

	x, err := a.theReplay(r, at)
	if err != nil {
		return err
	}

	return writeJSON(w, http.StatusOK, viewReplay(&x))
}

// stopReplay serves DELETE /v1/replays/{id}.
func (a *api) stopReplay(w http.ResponseWriter, r *http.Request, at site) error {
	return a.switchReplay(w, r, at, audit.ReplayStop)
}

// resumeReplay serves POST /v1/replays/{id}/resume.
func (a *api) resumeReplay(w http.ResponseWriter, r *http.Request, at site) error {
	return a.switchReplay(w, r, at, audit.ReplayResume)
}

func (a *api) switchReplay(w http.ResponseWriter, r *http.Request, at site, action audit.Action) error {
	if err := empty(w, r); err != nil {
		return err
	}

	x, err := a.theReplay(r, at)
	if err != nil {
		return err
	}

	do, want := a.replayer.Stop, history.ReplayStopped
	if action == audit.ReplayResume {
		do, want = a.replayer.Resume, history.ReplayRunning
	}

	changed, err := do(r.Context(), x.ID)
	if changed || err != nil {
		a.operated(r, at, audit.Entry{Action: action, Prefix: x.Prefix, Detail: x.Name}, err)
	}

	if err != nil {
		return a.replayProblem(err)
	}
	if x, err = a.theReplay(r, at); err != nil {
		return err
	}
	if !changed && x.State != want {
		return problem(http.StatusConflict, "the replay is %s", x.State)
	}

	return writeJSON(w, http.StatusOK, viewReplay(&x))
}
