package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Historian reads finalized notices.
type Historian interface {
	Find(ctx context.Context, q history.Query) (history.Page, error)
	// Latest is the last ending under a key; ok is false if there is none.
	Latest(ctx context.Context, key string) (row history.Row, ok bool, err error)
	MonthReport(ctx context.Context, q history.ReportQuery) (*history.Report, error)
}

// Eraser erases finalized notices.
type Eraser interface {
	Erase(ctx context.Context, x history.Erasure) (history.Erased, error)
}

var eraseParams = []parameter{paramKey, paramEndHost}

var historyParams = []parameter{paramKey, paramID, paramPart, paramPrefix, paramEndHost, paramOutcome, paramEndReason, paramEndSince,
	paramEndUntil, paramText, paramLimit, paramCursor}

var (
	paramKey  = parameter{"key", "The key of one notice.", "app1:orders:paid:4711"}
	paramID   = parameter{"id", "A webhook-id.", "msg_0123456789abcdef0123456789"}
	paramPart = parameter{"part", "A part of a key or, with a colon, the beginning of one; needs since unless it has the three colons of " +
		"app:module:type:id.",
		"app1:orders:paid:2026112"}
	paramEndHost = parameter{"host", "The host that was called, without port.", "shop.example"}
	paramOutcome = parameter{"outcome", "delivered, dead, cancelled or replaced; several, comma-separated; all if it is left out.",
		"dead,cancelled"}
	paramEndReason = parameter{"reason", "Why it died.", "status_5xx"}
	paramEndSince  = parameter{"since", "RFC 3339; by the time of the ending.", "2026-11-21T00:00:00Z"}
	paramEndUntil  = parameter{"until", "RFC 3339, exclusive.", "2026-11-22T00:00:00Z"}
	paramText      = parameter{"text", "Words of the body or of an answer, whatever their case; needs since.", "card declined"}
)

// maxText is the longest text that is searched for.
const maxText = 200

// Endings answers GET /v1/history.
type Endings struct {
	Items  []codec.Ending `json:"items" doc:"Latest first."`
	Cursor string         `json:"cursor,omitempty" doc:"Pass this to get the next page. Absent on the last page."`
}

// history serves GET /v1/history.
func (a *api) history(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, historyParams)
	if p != nil {
		return p
	}
	if a.historian == nil {
		return problem(http.StatusNotFound, "there is no history: NOTIFIER_HISTORY_URL is not set for this instance")
	}

	q, p := a.endingsAsked(values)
	if p != nil {
		return p
	}

	cursors := a.cursors("history", at, values)
	var err error
	if q.Cursor, err = cursors.open(r.Context(), values.Get("cursor")); err != nil {
		return err
	}

	var page history.Page
	if q.Client = at.Name; at.within(&q) {
		if page, err = a.historian.Find(r.Context(), q); err != nil {
			return a.historyProblem(err)
		}
	}

	out := []byte(`{"items":[`)
	n := 0
	for i := range page.Rows {
		if !at.Covers(page.Rows[i].Key) {
			continue
		}

		if n++; n > 1 {
			out = append(out, ',', '\n')
		}

		v := a.ending(r.Context(), at, &page.Rows[i])
		out = codec.Append(out, &v)
	}

	return cursors.writePage(w, r, out, page.Cursor, nil)
}

// endingsAsked reads the parameters of a search.
func (a *api) endingsAsked(values url.Values) (history.Query, *Problem) {
	var f codec.Faults
	shared := a.filter(values, &f)
	q := history.Query{Prefix: shared.Prefix, Reason: shared.Reason, Since: shared.Since, Until: shared.Until, Limit: limitOf(values, &f),
		Text: values.Get("text"), ID: values.Get("id"), Part: values.Get("part")}
	if q.Key = values.Get("key"); q.Key != "" {
		if err := (caller{}).check(q.Key); err != nil {
			f.Add("query.key", codec.Clip(q.Key, 100), "want app:module:type:id")
		}
		if q.Prefix != "" {
			f.Add("query.prefix", nil, "goes with no key")
		}
	}

	q.Host = hostParam(values, &f)
	if s := values.Get("outcome"); s != "" {
		for part := range strings.SplitSeq(s, ",") {
			o := notice.Ending(strings.TrimSpace(part))
			if !slices.Contains(notice.Endings, o) {
				f.Add("query.outcome", codec.Clip(part, 60), "want %s, or several, comma-separated", codec.Join(notice.Endings))
				break
			}

			q.Outcomes = append(q.Outcomes, o)
		}
	}

	if q.ID != "" && !notice.IsID(q.ID) {
		f.Add("query.id", codec.Clip(q.ID, 100), "want a webhook-id: msg_ and 26 hexadecimal digits")
	}

	if len(q.Part) > keys.MaxKey {
		f.Add("query.part", nil, "has %d bytes, at most %d are allowed", len(q.Part), keys.MaxKey)
	}

	if len(q.Text) > maxText {
		f.Add("query.text", nil, "has %d bytes, at most %d are allowed", len(q.Text), maxText)
	}

	if q.Unindexed() && q.Since.IsZero() {
		f.Add("query.since", nil, "is missing; a search for text or for a part of a key needs the start of a window")
	}

	return q, refusal(f)
}

// within narrows a search to the caller's scope. It returns false if they have no key in common.
func (s site) within(q *history.Query) bool {
	if q.Key != "" {
		return s.Covers(q.Key)
	}

	narrowed := store.Query{Prefix: q.Prefix}
	ok := s.narrow(&narrowed)
	q.Prefix = narrowed.Prefix
	return ok
}

// historyProblem returns the answer to a failed call of the history.
func (a *api) historyProblem(err error) error {
	switch {
	case errors.Is(err, history.ErrBusy):
		return problem(http.StatusTooManyRequests,
			"too many searches for text are running, of this client or of all; repeat the call").with("Retry-After", "2")
	case errors.Is(err, history.ErrCursor):
		return store.ErrCursor
	case errors.Is(err, history.ErrSlow):
		return problem(http.StatusUnprocessableEntity, "%s", err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, wire.ErrUnavailable):
		return err
	}

	a.log.Warn("the history database does not answer", zap.Error(err))
	text := "the history's database does not answer at the moment; notices are delivered all the same, and finalized ones wait to be " +
		"written. Repeat the call"
	switch {
	case errors.Is(err, history.ErrNewer):
		text = "the history's schema is newer than this instance, which cannot read it; call an instance of the newer version"
	case errors.Is(err, history.ErrForeign):
		text = "the history's database belongs to another service, so this one has no history; notifier doctor names the remedy"
	}

	return problem(http.StatusServiceUnavailable, "%s", text).with("Retry-After", "5")
}

// ending returns a history entry with its body, opened if it is sealed and the caller may read it.
func (a *api) ending(ctx context.Context, at site, r *history.Row) codec.Ending {
	f := a.openedAt(ctx, at, &store.Found{Notice: r.Notice})
	n, inline := f.Notice, f.InlineJSON()
	v := codec.Ending{Key: n.Key, ID: n.ID(), Ending: r.Number, Route: a.routes.NameOf(n.Route), Host: r.Host,
		Outcome: r.Outcome, Reason: string(n.Reason), Due: codec.Stamp(n.Due),
		CreatedAt: codec.Stamp(n.Made.Time()), EndedAt: codec.Stamp(r.Ended), AttemptsMade: n.AttemptsMade,
		Content: contentOf(n, inline), Attempts: n.Attempts, BodySHA256: hex.EncodeToString(r.BodyHash), BodyKept: r.BodyKept,
		Sealed: r.WasSealed(), ForgottenAt: codec.Stamp(f.Forgotten), Unreadable: r.Damaged, Payload: payloadOf(n, inline)}
	switch {
	case !r.WasSealed():
		v.BodySize, v.Withheld = &r.BodySize, r.Withheld
	case r.Sealed != "" && n.Sealed == "":
		v.BodySize = new(len(n.Body))
	}

	return v
}

// remembered returns the last history entry of a notice that Redis no longer stores. ok is false without an entry or without a
// history.
func (a *api) remembered(ctx context.Context, key string) (row history.Row, ok bool, err error) {
	if a.historian == nil {
		return history.Row{}, false, nil
	}

	row, ok, err = a.historian.Latest(ctx, key)
	if errors.Is(err, history.ErrForeign) { // there is none of this service
		return history.Row{}, false, nil
	}
	if err != nil {
		return history.Row{}, false, a.historyProblem(err)
	}

	return row, ok, nil
}

// Erased answers DELETE /v1/history.
type Erased struct {
	Rows    int64 `json:"rows" doc:"Erased entries of the database."`
	Redis   int   `json:"redis" doc:"Erased settled notices and dead letters in Redis."`
	Pending int   `json:"pending" doc:"1 if the key has a pending notice, which stays. Cancel it and erase again."`
}

// erase serves DELETE /v1/history.
func (a *api) erase(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, eraseParams)
	if p != nil {
		return p
	}
	if err := noBody(w, r); err != nil {
		return err
	}
	if a.eraser == nil {
		return problem(http.StatusNotFound, "there is no history: NOTIFIER_HISTORY_URL is not set for this instance")
	}

	q, p := a.endingsAsked(values)
	switch {
	case p != nil:
		return p
	case (q.Key == "") == (q.Host == ""):
		var f codec.Faults
		f.Add("query.key", nil, "want either key or host")
		return refusal(f)
	case q.Key != "" && !at.Covers(q.Key):
		return absent(q.Key)
	case q.Host != "" && at.Prefix != "":
		return problem(http.StatusForbidden, "erasing a host concerns all keys, and this client has a prefix; erase keys one by one")
	}

	x := history.Erasure{Key: q.Key, Host: q.Host}
	done, err := a.eraser.Erase(r.Context(), x)
	a.operated(r, at, audit.Entry{Action: audit.Erase, Detail: fmt.Sprintf("%s: %s, %d in Redis", x, notice.Count(done.Rows, "row"),
		done.Redis)}, err)
	switch {
	case errors.Is(err, history.ErrUnavailable), errors.Is(err, history.ErrNewer), errors.Is(err, history.ErrForeign):
		return a.historyProblem(err)
	case err != nil:
		return err
	}

	return writeJSON(w, http.StatusOK, Erased{Rows: done.Rows, Redis: done.Redis, Pending: done.Pending})
}
