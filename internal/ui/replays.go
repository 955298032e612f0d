package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/keys"
	"notifier/internal/notice"
)

const (
	mostReplays = 100
	replayEvery = 2 * time.Second
	replayRate  = "50/s" // unless another one is chosen
	maxRate     = 10_000 // a second
	replaysLive = "replays/"
)

// replayRow is a replay in the list and on its page.
type replayRow struct {
	Path, Name, Client string
	State              history.ReplayState
	Level              level
	Reason             string
	Since, Until       stamp
	Prefix, Host       string
	Rate               perSecond
	Outcomes           []text
	NewIDs             bool
	Made, Changed      stamp
	Total, Sent, Left  int64
	Percent            int64
	Skipped            []resultRow
	Refused            []resultRow
	MayStop, MayResume bool
	CSRF               string
}

// rateFault is the text for a rate that cannot be read.
var rateFault = say("Not a rate: use 50/s or 600/m, at most %s/s.", maxRate)

// resultRow counts the notices that were not sent for one reason.
type resultRow struct {
	Text    text
	Notices int64
}

// resultTexts are the reasons for which a notice was not sent.
var resultTexts = map[string]text{
	jobs.Pending:      say("another notice is pending under the key"),
	jobs.Dead:         say("the dead letter of another notice has the key"),
	jobs.Cancelled:    say("cancelled since"),
	jobs.Gone:         say("no longer in the history"),
	jobs.BodyHashed:   say("the history has only a hash of the body"),
	jobs.BodyDropped:  say("the history did not keep the body"),
	jobs.SecretLost:   say("needs a secret that the history does not keep"),
	jobs.KeyForgotten: say("the subject was forgotten"),
	jobs.KeyLost:      say("the key of the sealed content is lost"),
	jobs.Unreadable:   say("the entry is unreadable"),
	jobs.NoRoute:      say("no route covers the key"),
	jobs.Unfit:        say("the route does not accept it"),
}

func resultRows(counts map[string]int64) (rows []resultRow) {
	for result, n := range counts {
		if result != jobs.Sent && n > 0 {
			text := resultTexts[result]
			if text == nil {
				text = plain(result)
			}

			rows = append(rows, resultRow{text, n})
		}
	}

	slices.SortFunc(rows, func(a, b resultRow) int {
		return cmp.Or(cmp.Compare(b.Notices, a.Notices), cmp.Compare(a.Text.String(), b.Text.String()))
	})
	return rows
}

// replayName identifies a replay among those of all clients.
func replayName(r *history.Replay) string { return r.Client + ":" + r.Name }

func (p *Pages) replayRow(r *history.Replay, v Visitor) replayRow {
	row := replayRow{Path: Root + "replays/" + url.PathEscape(replayName(r)), Name: r.Name, Client: r.Client, State: r.State, Reason: r.Reason,
		Since: p.stamp(r.Since), Until: p.stamp(r.Until), Prefix: r.Prefix, Host: r.Host, Rate: perSecond(r.Rate), NewIDs: r.NewIDs,
		Made: p.stamp(r.Made), Changed: p.stamp(r.Changed), Total: r.Total, Sent: r.Counts[jobs.Sent], Skipped: resultRows(r.Counts),
		Refused: resultRows(r.Refused), CSRF: v.CSRF}
	row.Level = map[history.ReplayState]level{history.ReplayRunning: mind, history.ReplayStopped: mind, history.ReplayDone: fine,
		history.ReplayFailed: wrong}[r.State]
	for _, o := range r.Outcomes {
		row.Outcomes = append(row.Outcomes, stateText(o))
	}

	done := int64(0)
	for _, n := range r.Counts {
		done += n
	}

	if row.Left = max(r.Total-done, 0); r.State == history.ReplayDone {
		row.Left = 0 // notices that Redis lost are neither sent nor skipped
	}

	row.Percent = 100
	if r.Total > 0 {
		row.Percent = 100 * (r.Total - row.Left) / r.Total
	}

	row.MayStop = v.May(auth.Operate) && r.State == history.ReplayRunning
	row.MayResume = v.May(auth.Operate) && r.State == history.ReplayStopped
	return row
}

type replaysPage struct {
	Rows []replayRow
	May  bool
}

// showReplays serves the list of replays.
func (p *Pages) showReplays(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if p.o.Replays == nil {
		return errNoHistory
	}

	list, err := p.o.Replays.List(r.Context(), v.Prefix, mostReplays)
	if err != nil {
		return p.replayFailure(r, err)
	}

	page := replaysPage{May: v.May(auth.Operate)}
	for i := range list {
		page.Rows = append(page.Rows, p.replayRow(&list[i], v))
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Replays"), Visitor: v, Content: replaysContent(page)})
}

// replayFailure returns the failure for an error of a replay.
func (p *Pages) replayFailure(r *http.Request, err error) error {
	switch {
	case errors.Is(err, jobs.ErrEmptyReplay):
		return failure{http.StatusUnprocessableEntity, say("The replay would send no notice.")}
	case errors.Is(err, jobs.ErrLargeReplay):
		return failure{http.StatusUnprocessableEntity,
			say("The replay would send more than %s notices: choose a shorter window, a host or a prefix.", history.MaxReplay)}
	case errors.Is(err, jobs.ErrOtherReplay):
		return failure{http.StatusConflict, say("A replay with this id has another window. Preview it again.")}
	case errors.Is(err, history.ErrUnavailable), errors.Is(err, history.ErrNewer), errors.Is(err, history.ErrForeign),
		errors.Is(err, history.ErrSlow):
		return p.historyFailure(r.Context(), err)
	}
	return err
}

// theReplay returns the replay of a request, if it is within the visitor's prefix.
func (p *Pages) theReplay(r *http.Request, v Visitor) (*history.Replay, error) {
	if p.o.Replays == nil {
		return nil, errNoHistory
	}

	client, name, _ := strings.Cut(r.PathValue("replay"), ":")
	list, err := p.o.Replays.Find(r.Context(), history.ReplayQuery{Name: name, Prefix: v.Prefix, Caller: client, Whose: &client})
	switch {
	case err != nil:
		return nil, p.replayFailure(r, err)
	case len(list) == 0:
		return nil, failure{http.StatusNotFound, say("There is no such replay. Replays are kept for 30 days after their last change.")}
	}

	return &list[0], nil
}

// showReplay serves one replay with its progress.
func (p *Pages) showReplay(w http.ResponseWriter, r *http.Request, v Visitor) error {
	x, err := p.theReplay(r, v)
	if err != nil {
		return err
	}

	row := p.replayRow(x, v)
	return p.render(w, r, http.StatusOK, view{Title: say("Replay %s", x.Name), Section: say("Replays"), Visitor: v,
		Live: replaysLive + url.PathEscape(replayName(x)), Content: replayContent(row)})
}

// showLiveReplay serves a stream of server-sent events with the progress of a replay.
func (p *Pages) showLiveReplay(w http.ResponseWriter, r *http.Request, v Visitor) error {
	x, err := p.theReplay(r, v)
	if err != nil {
		return err
	}

	f, err := p.open(w, r, v)
	if err != nil {
		return err
	}

	defer f.close()
	if f.send(again) != nil {
		return nil
	}

	lang := languageOf(r)
	for err == nil {
		blocks, bad := lang.renderBlocks([]liveBlock{{"replay", replayProgress(p.replayRow(x, v))}})
		if bad != nil {
			p.log.Error("cannot render a live page", zap.String("page", "replay"), zap.Error(bad))
			return nil
		}

		if f.sendChanged(blocks) != nil || !f.wait(replayEvery) {
			return nil
		}

		x, err = p.theReplay(r, v)
	}

	return nil // the page keeps its last state
}

// switchReplay stops or resumes a replay.
func (p *Pages) switchReplay(stop bool) handler {
	return func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		x, err := p.theReplay(r, v)
		if err != nil {
			return err
		}

		do, action, said := p.o.Replays.Resume, audit.ReplayResume, "replay-resumed"
		if stop {
			do, action, said = p.o.Replays.Stop, audit.ReplayStop, "replay-stopped"
		}

		changed, err := do(lasting(r), x.ID)
		if changed || err != nil {
			p.note(r, v, audit.Entry{Action: action, Prefix: x.Prefix, Detail: x.Name}, err)
		}

		if err != nil {
			return p.replayFailure(r, err)
		}

		if !changed {
			said = "replay-unchanged"
		}

		return back(w, Root+"replays/"+url.PathEscape(replayName(x)), url.Values{"said": {said}})
	}
}

// replayAsked is the form of a new replay.
type replayAsked struct {
	ID, Since, Until, Prefix, Host, Outcome, Rate string
	NewIDs                                        bool
}

type newReplayPage struct {
	replayAsked
	Wrong text
	CSRF  string
	Plan  *planned // nil without a preview
}

// planned is the preview of a replay.
type planned struct {
	replayRow
	Found     int64
	Hosts     []jobs.Host
	HostCount int
	Differs   []jobs.Differs
	Form      replayAsked // with its times in full
}

// showNewReplay serves the form of a replay, and with the parameter preview its preview.
func (p *Pages) showNewReplay(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if p.o.Replays == nil {
		return errNoHistory
	}

	page := newReplayPage{replayAsked: askedOf(r), CSRF: v.CSRF}
	if r.URL.Query().Has("preview") {
		err := p.preview(r, v, &page)
		var bad failure
		if err != nil && !errors.As(err, &bad) {
			return err
		}

		page.Wrong = bad.text
	}

	return p.render(w, r, http.StatusOK, view{Title: say("New replay"), Section: say("Replays"), Visitor: v, Content: newReplayContent(page)})
}

func askedOf(r *http.Request) replayAsked {
	get := func(name string) string { return strings.TrimSpace(r.FormValue(name)) }
	return replayAsked{ID: get("id"), Since: get("since"), Until: get("until"), Prefix: get("prefix"), Host: get("host"),
		Outcome: get("outcome"), Rate: cmp.Or(get("rate"), replayRate), NewIDs: get("new_ids") != ""}
}

// preview adds the preview.
func (p *Pages) preview(r *http.Request, v Visitor, page *newReplayPage) error {
	x, err := p.replayOf(page.replayAsked, v)
	if err != nil {
		return err
	}

	plan, err := p.o.Replays.Make(r.Context(), x, true)
	if err != nil {
		return p.replayFailure(r, err)
	}

	form := page.replayAsked
	form.ID, form.Since, form.Until, form.Prefix = x.Name, x.Since.Format(time.RFC3339Nano), x.Until.Format(time.RFC3339Nano), x.Prefix
	page.Plan = &planned{p.replayRow(plan.Replay, v), plan.Found, plan.Hosts, plan.HostCount, plan.Differs, form}
	return nil
}

// replayOf returns the replay of a form.
func (p *Pages) replayOf(q replayAsked, v Visitor) (*history.Replay, error) {
	refuse := func(text text) error { return failure{http.StatusUnprocessableEntity, text} }
	x := &history.Replay{ID: history.NewReplayID(), Name: q.ID, Client: v.Client, Prefix: strings.TrimSuffix(q.Prefix, ":")}
	if !api.IsReplayName(x.Name) {
		x.Name = x.ID
	}

	x.NewIDs, x.Outcomes = q.NewIDs, []notice.Ending{notice.EndDead, notice.EndDelivered}
	switch o := notice.Ending(q.Outcome); o {
	case "":
	case notice.EndDead, notice.EndDelivered:
		x.Outcomes = []notice.Ending{o}
	default:
		return nil, refuse(say("Only delivered and dead notices can be replayed."))
	}

	of, wrong := p.searchFor(filter{Since: q.Since, Until: q.Until, Host: q.Host}, v)
	if wrong != nil {
		return nil, refuse(wrong)
	}

	x.Since, x.Until, x.Host = of.Since, of.Until, of.Host
	switch {
	case x.Since.IsZero():
		return nil, refuse(say("A replay needs the start of a window."))
	case !x.Until.IsZero() && !x.Since.Before(x.Until):
		return nil, refuse(say("The end of the window is not after its start."))
	case x.Prefix != "" && keys.CheckPrefix(x.Prefix) != nil:
		return nil, refuse(say("Not a prefix: use app, app:module or app:module:type."))
	case x.Prefix != "" && x.Prefix != v.Prefix && !v.Covers(x.Prefix):
		return nil, refuse(say("You may only replay notices under `%s`.", v.Prefix))
	}

	x.Prefix = cmp.Or(x.Prefix, v.Prefix)
	var err error
	if x.Rate, err = notice.ParseRate(q.Rate); err != nil || x.Rate > maxRate {
		return nil, refuse(rateFault)
	}

	return x, nil
}

// startReplay creates the previewed replay.
func (p *Pages) startReplay(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if p.o.Replays == nil {
		return errNoHistory
	}

	x, err := p.replayOf(askedOf(r), v)
	if err != nil {
		return err
	}

	plan, err := p.o.Replays.Make(lasting(r), x, false)
	var refused failure
	if err == nil && !plan.Known || err != nil && !errors.As(p.replayFailure(r, err), &refused) {
		p.note(r, v, audit.Entry{Action: audit.Replay, Prefix: x.Prefix, Detail: fmt.Sprintf("%s: %s that ended since %s, until %s", x.Name,
			plural(x.Total, "notice"), x.Since.Format(time.RFC3339), x.Until.Format(time.RFC3339))}, err)
	}

	if err != nil {
		return p.replayFailure(r, err)
	}

	return back(w, Root+"replays/"+url.PathEscape(replayName(plan.Replay)), url.Values{"said": {"replay-started"}})
}
