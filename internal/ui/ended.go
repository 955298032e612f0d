package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Historian finds what has ended.
type Historian interface {
	Find(ctx context.Context, q history.Query) (history.Page, error)
}

// mostEndings is how many endings of one key a page lists.
const mostEndings = 50

// endedRow is an ending in the list of those under a key.
type endedRow struct {
	Path    string // of its page
	Here    bool   // the page shows it
	Number  int
	Outcome notice.Ending
	At      stamp
	ID      string
	Last    string
}

// endings are those under a key that the visitor may see, the latest first; with an id only
// those of that webhook-id.
func (p *Pages) endings(ctx context.Context, key, id string, v Visitor) ([]history.Row, error) {
	if p.o.History == nil || !keys.Valid(key) || !v.Covers(key) {
		return nil, nil
	}
	page, err := p.o.History.Find(ctx, history.Query{Key: key, ID: id, Limit: mostEndings})
	if err != nil {
		f := p.historyFailure(ctx, err)
		f.text = "Redis keeps no such notice. " + f.text
		return nil, f
	}
	var rows []history.Row
	for i := range page.Rows {
		if f := remembered(&page.Rows[i]); v.Sees(&f, page.Rows[i].Host) {
			rows = append(rows, page.Rows[i])
		}
	}
	return rows, nil
}

// historyFailure is the answer to a visitor if the history fails with err.
func (p *Pages) historyFailure(ctx context.Context, err error) failure {
	switch {
	case errors.Is(err, history.ErrBusy):
		return failure{http.StatusTooManyRequests, "The history runs as many searches of this kind as it may. Try again."}
	case errors.Is(err, history.ErrSlow):
		return failure{http.StatusUnprocessableEntity, "The history took too long to search: choose a shorter window, a host or a state."}
	}
	if ctx.Err() == nil {
		p.log.Warn("the history was asked and did not answer", zap.Error(err))
	}
	switch {
	case errors.Is(err, history.ErrForeign):
		return failure{http.StatusServiceUnavailable, "The history's database belongs to another service. notifier doctor names the remedy."}
	case errors.Is(err, history.ErrNewer):
		return failure{http.StatusServiceUnavailable, "The history's schema is newer than this instance. Ask an instance of the newer version."}
	}
	return failure{http.StatusServiceUnavailable, "The history's database does not answer. Try again."}
}

// remembered is a row as if it had been found in Redis.
func remembered(r *history.Row) store.Found {
	return store.Found{Notice: r.Notice, State: notice.State(r.Outcome), SettledAt: r.Ended.Truncate(time.Millisecond)}
}

// entryPath is the address of an entry of the history.
func entryPath(r *history.Row) string {
	return Root + "notices/" + r.Key + "?ended=" + entryName(r)
}

// entryName names an entry among those of its key.
func entryName(r *history.Row) string { return r.ID() + "." + strconv.Itoa(r.Number) }

// entry finds the entry of a name among those of a key, the last one if the name is empty; nil if
// there is none. Those that are not among the last ones are read by their webhook-id.
func (p *Pages) entry(ctx context.Context, key, name string, rows []history.Row, v Visitor) (*history.Row, error) {
	fits := func(r history.Row) bool { return name == "" || entryName(&r) == name }
	if i := slices.IndexFunc(rows, fits); i >= 0 {
		return &rows[i], nil
	}
	id, _, _ := strings.Cut(name, ".")
	if len(rows) < mostEndings || !notice.IsID(id) {
		return nil, nil
	}
	more, err := p.endings(ctx, key, id, v)
	if i := slices.IndexFunc(more, fits); i >= 0 {
		return &more[i], nil
	}
	return nil, err
}

// showEnded serves what the history has under a key; otherwise is the answer if that
// is nothing.
func (p *Pages) showEnded(w http.ResponseWriter, r *http.Request, v Visitor, otherwise error) error {
	key := r.PathValue("key")
	rows, err := p.endings(r.Context(), key, "", v)
	if err != nil {
		return err
	}
	last, err := p.entry(r.Context(), key, r.URL.Query().Get("ended"), rows, v)
	switch {
	case err != nil:
		return err
	case last == nil:
		return otherwise
	}
	f := remembered(last)
	page := p.noticePage(&f, Visitor{})
	page.Ended, page.Older = true, len(rows) > 0 && entryName(last) != entryName(&rows[0])
	page.May, page.MayCancel, page.MayFire, page.MayRedrive, page.MayTest = false, false, false, false, false
	page.Host, page.History, page.Now = last.Host, false, r.URL.Query().Has("ended")
	if !p.o.Mask.None() && (!last.BodyKept || len(last.Withheld) > 0 || history.PasswordWithheld(last.URL)) {
		for i := range page.Steps { // what of an answer was sent, and must not be shown, is not known any more
			if page.Steps[i].Answer != "" {
				page.Steps[i].Answer = "(masked)"
			}
		}
	}
	page.Body.Size = plural(last.BodySize, "byte")
	if !last.BodyKept {
		page.Body.Kind = "not kept (NOTIFIER_HISTORY_BODIES)"
		if last.BodyHash != nil {
			page.Body.Kind = fmt.Sprintf("not kept but its SHA-256: %x", last.BodyHash)
		}
	}
	for i := range rows {
		x := &rows[i]
		row := endedRow{Path: entryPath(x), Here: entryName(x) == entryName(last), Number: x.Number, Outcome: x.Outcome, At: p.stamp(x.Ended), ID: x.ID(), Last: string(x.Reason)}
		if n := len(x.Attempts); n > 0 {
			row.Last = lastWord(x.Attempts[n-1])
		}
		if len(x.Damaged) > 0 {
			row.Last = "unreadable: " + strings.Join(x.Damaged, ", ")
		}
		page.Endings = append(page.Endings, row)
	}
	return p.render(w, r, http.StatusOK, view{Template: "notice", Title: key, Section: "Notices", Visitor: v, Data: page})
}
