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
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/replay"
	"notifier/internal/store"
)

// Replayer sends again what has ended.
type Replayer interface {
	// MakeReplay begins a replay, or only says what it would do.
	MakeReplay(ctx context.Context, r *history.Replay, dry bool) (*replay.Plan, error)
	// Replays lists at most n, the latest first, of those within a prefix.
	Replays(ctx context.Context, prefix string, n int) ([]history.Replay, error)
	// FindReplays returns the caller's replay of a name, or at most two of other clients.
	FindReplays(ctx context.Context, q history.ReplayQuery) ([]history.Replay, error)
	// By their ID, StopReplay and ResumeReplay report whether they have changed anything.
	StopReplay(ctx context.Context, id string) (ok bool, err error)
	ResumeReplay(ctx context.Context, id string) (ok bool, err error)
}

const (
	defaultReplayRate = 50
	maxReplayRate     = 10_000
	mostReplays       = 100
)

// ReplayRequest is the body of POST /v1/replays.
type ReplayRequest struct {
	Since   codec.Stamp     `json:"since" doc:"What ended from then on." example:"2026-11-17T12:00:00Z"`
	Until   codec.Stamp     `json:"until,omitzero" doc:"And before then; now if absent." example:"2026-11-17T18:00:00Z"`
	Prefix  string          `json:"prefix,omitempty" doc:"app, app:module or app:module:type: what the keys lie under; a client's own if absent." example:"app1:orders"`
	Host    string          `json:"host,omitempty" doc:"The host that was called." example:"shop.example"`
	Outcome []notice.Ending `json:"outcome,omitempty" enum:"delivered,dead" doc:"What its last ending was; both if absent. What was cancelled or replaced is never sent."`
	Rate    string          `json:"rate,omitempty" doc:"How many are scheduled in a second, a minute or an hour; 50/s if absent." example:"50/s"`
	ID      *string         `json:"id,omitempty" maxLength:"64" doc:"Names it, in letters, digits, - and _, so that the call may be repeated; each client has ids of its own: the same id and content again is answered with 200 and the replay that there is, another content with 409. If absent each call makes a replay." example:"shop-outage-1117"`
	NewIDs  bool            `json:"new_ids,omitempty" doc:"true: each gets a new webhook-id, so that receivers do not take it for one that they have."`
	DryRun  bool            `json:"dry_run,omitempty" doc:"true: count and send nothing."`
}

// Replay is what was asked to be sent again, and how far that is.
type Replay struct {
	ID        string           `json:"id,omitempty" doc:"Which callbacks carry in the header notifier-replay; absent of a dry run."`
	State     string           `json:"state,omitempty" enum:"running,stopped,done,failed" doc:"done: all is scheduled; what comes of it, the history tells. Absent of a dry run."`
	Reason    string           `json:"reason,omitempty" doc:"Why it failed."`
	Client    string           `json:"client,omitempty" doc:"Who made it."`
	Since     codec.Stamp      `json:"since"`
	Until     codec.Stamp      `json:"until"`
	Prefix    string           `json:"prefix,omitempty"`
	Host      string           `json:"host,omitempty"`
	Outcome   []string         `json:"outcome"`
	Rate      string           `json:"rate" example:"50/s"`
	NewIDs    bool             `json:"new_ids"`
	Found     int64            `json:"found" doc:"Notices that fitted."`
	Refused   map[string]int64 `json:"refused" doc:"Of them those that cannot be sent again, by why: body_hashed, body_dropped, secret_not_kept, unreadable, no_route, unfit."`
	Total     int64            `json:"total" doc:"The rest: those that are sent."`
	Sent      int64            `json:"sent" doc:"Scheduled again by now."`
	Skipped   map[string]int64 `json:"skipped" doc:"Not scheduled when their turn came, by why: pending (something waits under the key), dead (another notice's dead letter lies there), cancelled (since), gone (the history has it no more), or as in refused."`
	Left      int64            `json:"left" doc:"Those that are still to come."`
	Differs   []ReplayDiffers  `json:"differs,omitempty" doc:"Where today's routes send them elsewhere than they went; only when it is made, or would be."`
	Hosts     []ReplayHost     `json:"hosts,omitempty" doc:"Where they go, the hosts with the most notices first, at most 20; only when it is made, or would be."`
	CreatedAt codec.Stamp      `json:"created_at,omitzero"`
	ChangedAt codec.Stamp      `json:"changed_at,omitzero"`
}

// ReplayHost says how many notices go to a host.
type ReplayHost struct {
	Host    string `json:"host" doc:"Empty = none: a list or stream."`
	Notices int64  `json:"notices"`
}

// ReplayDiffers says how many notices go elsewhere today.
type ReplayDiffers struct {
	Route   string `json:"route" doc:"The name of today's route."`
	Then    string `json:"then" doc:"The host that was called; empty = none."`
	Now     string `json:"now" doc:"The host that will be; empty = none."`
	Notices int64  `json:"notices"`
}

// Replays answers GET /v1/replays.
type Replays struct {
	Items []Replay `json:"items" doc:"The latest first, at most 100."`
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
		if v.Left -= n; result == store.ReplaySent {
			v.Sent = n
		} else {
			v.Skipped[result] = n
		}
	}
	if v.Left = max(v.Left, 0); r.State == history.ReplayDone {
		v.Left = 0 // what Redis has forgotten is neither
	}
	return v
}

// replayNames are the ids that callers may give. They hold no colon: see theReplay.
var replayNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// IsReplayName reports whether a caller may give a replay that id.
func IsReplayName(name string) bool { return replayNames.MatchString(name) }

func spellRate(perSecond float64) string {
	for _, u := range []struct {
		name string
		per  float64
	}{{"/s", 1}, {"/m", 60}, {"/h", 3600}} {
		if n := perSecond * u.per; n == float64(int64(n+.5)) || u.name == "/h" {
			return strconv.FormatFloat(n, 'f', -1, 64) + u.name
		}
	}
	return ""
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
		return problem(http.StatusForbidden, "this client may only replay what lies under %s", at.Prefix)
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

	x.Prefix = strings.TrimSuffix(q.Prefix, ":")
	if err := keys.CheckPrefix(x.Prefix); x.Prefix != "" && err != nil {
		f.Add("body.prefix", codec.Clip(x.Prefix, 100), "%s", codec.Clip(err.Error(), 200))
	}
	x.Host = hostMember(q.Host, f)
	if q.Rate != "" {
		rate, err := notice.ParseRate(q.Rate)
		if x.Rate = rate; err != nil || rate > maxReplayRate {
			f.Add("body.rate", codec.Clip(q.Rate, 100), "want a rate such as 50/s or 600/m, at most %d/s", maxReplayRate)
		}
	}

	switch {
	case x.Since.IsZero() && len(*f) == 0:
		f.Add("body.since", nil, "is missing: say from when on")
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

// outcomesOf are the endings that a replay sends, sorted and without repetitions; by default all of them.
func outcomesOf(given []notice.Ending) []notice.Ending {
	if len(given) == 0 {
		return []notice.Ending{notice.EndDead, notice.EndDelivered}
	}
	return slices.Compact(slices.Sorted(slices.Values(given)))
}

func (a *api) replay(w http.ResponseWriter, r *http.Request, at site, x *history.Replay, dry bool) error {
	plan, err := a.replayer.MakeReplay(r.Context(), x, dry)
	refused := errors.Is(err, replay.ErrEmpty) || errors.Is(err, replay.ErrLarge) || errors.Is(err, replay.ErrOther) ||
		errors.Is(err, history.ErrSlow)
	if known := err == nil && plan.Known; !dry && !refused && !known {
		a.operated(r, at, audit.Entry{Action: audit.Replay, Prefix: x.Prefix, Detail: fmt.Sprintf("%s: %s that ended since %s, until %s",
			x.Name, notice.Count(x.Total, "notice"), x.Since.Format(time.RFC3339), x.Until.Format(time.RFC3339))}, err)
	}
	switch {
	case errors.Is(err, replay.ErrEmpty), errors.Is(err, replay.ErrLarge):
		return problem(http.StatusUnprocessableEntity, "%s", err.Error())
	case errors.Is(err, replay.ErrOther):
		return problem(http.StatusConflict, "this client has a replay with the id %s that was asked for in other words; take another id", x.Name)
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

// replayProblem is what a caller is told of a replay that failed, by Redis or by
// the database.
func (a *api) replayProblem(err error) error {
	if errors.Is(err, history.ErrUnavailable) || errors.Is(err, history.ErrNewer) || errors.Is(err, history.ErrForeign) ||
		errors.Is(err, history.ErrSlow) {
		return a.historyProblem(err)
	}
	return err
}

func noHistory() *Problem {
	return problem(http.StatusNotFound, "there is no history: NOTIFIER_HISTORY_URL is not set where this instance runs")
}

// replays serves GET /v1/replays.
func (a *api) replays(w http.ResponseWriter, r *http.Request, at site) error {
	if err := noQuery(r); err != nil {
		return err
	}
	if a.replayer == nil {
		return noHistory()
	}
	list, err := a.replayer.Replays(r.Context(), at.Prefix, mostReplays)
	if err != nil {
		return a.replayProblem(err)
	}
	out := Replays{Items: []Replay{}}
	for i := range list {
		out.Items = append(out.Items, viewReplay(&list[i]))
	}
	return writeJSON(w, http.StatusOK, out)
}

// theReplay reads the one that a path names by id, or by client:id, if it lies within the
// caller's scope. Ids are each client's own, and the caller's goes before those of others.
func (a *api) theReplay(r *http.Request, at site) (history.Replay, error) {
	if a.replayer == nil {
		return history.Replay{}, noHistory()
	}
	q := history.ReplayQuery{Name: at.param, Prefix: at.Prefix, Caller: at.Name}
	if client, name, named := strings.Cut(at.param, ":"); named {
		q.Name, q.Whose = name, &client
	}
	list, err := a.replayer.FindReplays(r.Context(), q)
	switch {
	case err != nil:
		return history.Replay{}, a.replayProblem(err)
	case len(list) == 0:
		return history.Replay{}, problem(http.StatusNotFound, "no replay has the id %s; what was not touched for 30 days is forgotten",
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
	do, want := a.replayer.StopReplay, history.ReplayStopped
	if action == audit.ReplayResume {
		do, want = a.replayer.ResumeReplay, history.ReplayRunning
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
