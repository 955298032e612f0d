package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Bulk is the part of an answer that a bulk redrive and a bulk purge share.
type Bulk struct {
	DryRun  bool   `json:"dry_run"`
	Matched int    `json:"matched" doc:"Dead letters that match the filter."`
	Cursor  string `json:"cursor,omitempty" doc:"Pass this to continue. Absent when all are done."`
	Missing
}

// Redriven answers a bulk redrive.
type Redriven struct {
	Bulk
	Redriven int `json:"redriven" doc:"The number of notices scheduled again; 0 in a dry run."`
}

// Purged answers a bulk purge.
type Purged struct {
	Bulk
	Purged int `json:"purged" doc:"The number of notices purged; 0 in a dry run."`
}

// stepBudget is how long one bulk call goes on with bounded steps before it
// hands out a cursor.
const stepBudget = 5 * time.Second

// redriveAll serves POST /v1/routes/{name}/redrive.
func (a *api) redriveAll(w http.ResponseWriter, r *http.Request, at site) error {
	return a.bulk(w, r, at, bulkCall{store.Redrive, audit.Redrive, "redriven", redriveParams})
}

// purgeAll serves POST /v1/routes/{name}/purge.
func (a *api) purgeAll(w http.ResponseWriter, r *http.Request, at site) error {
	return a.bulk(w, r, at, bulkCall{store.Purge, audit.Purge, "purged", purgeParams})
}

// bulkCall is a call that changes all dead letters of a route that match.
type bulkCall struct {
	op     store.Amendment
	action audit.Action
	verb   string
	params []parameter
}

// bulking is a bulk call that runs.
type bulking struct {
	bulkCall
	store.Bulk
	rate    float64 // a second; 0 = at once
	host    string
	changed int // of the whole call and, with a rate, of those before it
}

func (a *api) bulk(w http.ResponseWriter, r *http.Request, at site, call bulkCall) error {
	values, p := queryOf(r, call.params)
	if p != nil {
		return p
	}
	if err := noBody(w, r); err != nil {
		return err
	}

	b, p := a.bulkOf(values, call)
	if p != nil {
		return p
	}
	if err := a.choose(r.Context(), &b.Query, at.caller, at.param); err != nil {
		return err
	}

	cursors := a.cursors(string(call.op), at, values)
	if err := b.open(r.Context(), cursors, values.Get("cursor")); err != nil {
		return err
	}

	out, before := Bulk{DryRun: b.DryRun}, b.changed
	if at.narrow(&b.Query) {
		if err := a.runBulk(r, at, b, &out); err != nil {
			return err
		}

		var err error
		if out.Cursor, err = b.seal(r.Context(), cursors); err != nil {
			// A new call continues: the notices that were changed are no dead letters any more.
			a.log.Warn("cannot seal the cursor of a bulk call", zap.String("route", at.param), zap.Int(call.verb, b.changed-before))
			return err
		}
	}

	if call.op == store.Purge {
		return writeJSON(w, http.StatusOK, Purged{out, b.changed - before})
	}

	return writeJSON(w, http.StatusOK, Redriven{out, b.changed - before})
}

// dryRunOf reads the parameter dry_run.
func dryRunOf(values url.Values, f *codec.Faults) bool {
	switch s := values.Get("dry_run"); s {
	case "true":
		return true
	case "", "false":
	default:
		f.Add("query.dry_run", codec.Clip(s, 60), "want true or false")
	}

	return false
}

// bulkOf reads the parameters of a bulk call.
func (a *api) bulkOf(values url.Values, call bulkCall) (*bulking, *Problem) {
	var f codec.Faults
	b := &bulking{bulkCall: call, host: hostParam(values, &f)}
	b.Query, b.Op = a.filter(values, &f), call.op
	b.State = notice.Dead
	b.DryRun = dryRunOf(values, &f)
	if s := values.Get("rate"); s != "" {
		var err error
		if b.rate, err = notice.ParseRate(s); err != nil {
			f.Add("query.rate", codec.Clip(s, 60), "%v", err)
		}
	}

	if b.host != "" {
		b.Fits = func(f *store.Found) bool { return a.hostOf(f.Notice) == b.host }
	}

	if b.rate > 0 {
		b.Delay = func(n int) time.Duration { return store.Paced(b.changed+n, b.rate) }
	}

	return b, refusal(f)
}

// runBulk makes steps until all is done or the call's time is over.
func (a *api) runBulk(r *http.Request, at site, b *bulking, out *Bulk) error {
	ctx, cancel := context.WithTimeout(r.Context(), stepBudget)
	defer cancel()
	before := b.changed
	var missing []wire.Lost
	for {
		// The step itself is not cut short: half a step could not be reported.
		step, err := a.operator.AmendAll(r.Context(), b.Bulk)
		if err != nil && out.Matched == 0 {
			if !b.DryRun {
				a.operated(r, at, a.bulkEntry(b, 0), err)
			}
			return err
		}

		out.Matched += step.Matched
		b.changed += step.Changed
		missing = wire.Together(missing, step.Missing)
		if err == nil {
			b.Cursor = step.Cursor
		}

		if err != nil || b.Cursor == "" || ctx.Err() != nil {
			break
		}
	}

	out.Missing = at.missing(missing)
	if n := b.changed - before; n > 0 {
		a.operated(r, at, a.bulkEntry(b, n), nil)
	}

	return nil
}

// open reads a cursor. With a rate it begins with the number of notices that the calls before have changed.
func (b *bulking) open(ctx context.Context, c cursors, sealed string) (err error) {
	if b.Cursor, err = c.open(ctx, sealed); err != nil || b.rate == 0 || b.Cursor == "" {
		return err
	}

	count, rest, _ := strings.Cut(b.Cursor, " ")
	b.changed, err = strconv.Atoi(count)
	b.Cursor = rest
	if err != nil {
		return store.ErrCursor
	}

	return nil
}

func (b *bulking) seal(ctx context.Context, c cursors) (string, error) {
	if b.rate > 0 && b.Cursor != "" {
		return c.seal(ctx, strconv.Itoa(b.changed)+" "+b.Cursor)
	}
	return c.seal(ctx, b.Cursor)
}

// bulkEntry is the entry of a bulk call under one prefix, which no route may have any more.
func (a *api) bulkEntry(b *bulking, n int) audit.Entry {
	e := audit.Entry{Action: b.action, Prefix: b.Routes[0], Detail: strconv.Itoa(n) + " " + b.verb}
	if rt := a.routes.Prefix(e.Prefix); rt != nil {
		e.Route = rt.Name
	}

	if (auth.Caller{Prefix: e.Prefix}).Owns(b.Prefix) {
		e.Prefix = b.Prefix
	}

	if b.Reason != "" {
		e.Detail += ", of reason " + b.Cause().String()
	}

	if b.host != "" {
		e.Detail += ", of host " + b.host
	}

	if !b.Since.IsZero() {
		e.Detail += ", since " + b.Since.Format(time.RFC3339)
	}

	if !b.Until.IsZero() {
		e.Detail += ", until " + b.Until.Format(time.RFC3339)
	}

	if b.rate > 0 {
		e.Detail += ", at " + spellRate(b.rate)
	}

	return e
}

// hostParam reads the parameter host; empty = any.
func hostParam(values url.Values, f *codec.Faults) string {
	s := values.Get("host")
	if s == "" {
		return ""
	}

	host, err := notice.Host(s)
	if err != nil {
		f.Add("query.host", codec.Clip(s, 100), "%s", codec.Clip(strings.TrimPrefix(err.Error(), "invalid: "), 200))
	}

	return host
}

// hostOf is the host that is called for a notice; empty = none.
func (a *api) hostOf(n *notice.Notice) string {
	if n.URL != "" {
		return history.HostOf(n.URL)
	}

	rt := a.routes.Prefix(n.Route)
	if rt == nil || rt.Target.Kind != route.KindFixed {
		return ""
	}

	host, err := notice.Host(rt.Target.URL.Hostname())
	if err != nil {
		return ""
	}

	return host
}
