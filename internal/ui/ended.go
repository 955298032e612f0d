package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	Number  int
	Outcome notice.Ending
	At      stamp
	ID      string
	Last    string
}

// endings are those under a key that the visitor may see, the latest first.
func (p *Pages) endings(ctx context.Context, key string, v Visitor) ([]history.Row, error) {
	if p.o.History == nil || !keys.Valid(key) || !v.Covers(key) {
		return nil, nil
	}
	page, err := p.o.History.Find(ctx, history.Query{Key: key, Limit: mostEndings})
	if err != nil {
		if ctx.Err() == nil {
			p.log.Warn("the history was asked and did not answer", zap.Error(err))
		}
		if errors.Is(err, history.ErrForeign) {
			return nil, failure{http.StatusServiceUnavailable, "Redis keeps no such notice, and the history's database belongs to another service. notifier doctor names the remedy."}
		}
		if errors.Is(err, history.ErrNewer) {
			return nil, failure{http.StatusServiceUnavailable, "Redis keeps no such notice, and the history's schema is newer than this instance; ask an instance of the newer version."}
		}
		return nil, failure{http.StatusServiceUnavailable, "Redis keeps no such notice, and the history's database does not answer at the moment. Try again."}
	}
	var rows []history.Row
	for i := range page.Rows {
		if f := remembered(&page.Rows[i]); v.Sees(&f, page.Rows[i].Host) {
			rows = append(rows, page.Rows[i])
		}
	}
	return rows, nil
}

// remembered is a row as if it had been found in Redis.
func remembered(r *history.Row) store.Found {
	return store.Found{Notice: r.Notice, State: notice.State(r.Outcome), SettledAt: r.Ended.Truncate(time.Millisecond)}
}

// showEnded serves what the history has under a key; otherwise is the answer if that
// is nothing.
func (p *Pages) showEnded(w http.ResponseWriter, r *http.Request, v Visitor, otherwise error) error {
	key := r.PathValue("key")
	rows, err := p.endings(r.Context(), key, v)
	switch {
	case err != nil:
		return err
	case len(rows) == 0:
		return otherwise
	}
	last := &rows[0]
	f := remembered(last)
	page := p.noticePage(&f, Visitor{})
	page.Ended, page.May, page.MayCancel, page.MayFire, page.MayRedrive, page.MayTest = true, false, false, false, false, false
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
		row := endedRow{Number: x.Number, Outcome: x.Outcome, At: p.stamp(x.Ended), ID: x.ID(), Last: string(x.Reason)}
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
