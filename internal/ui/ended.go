package ui

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"notifier/internal/audit"
	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/search"
	"notifier/internal/store"
)

// Historian reads the history.
type Historian = search.History

// mostEndings is the maximum number of finalized notices of one key on a page.
const mostEndings = 50

// endedRow is one of the finalized notices of a key.
type endedRow struct {
	Path    string // of its page
	Here    bool   // the page shows it
	Number  int
	Outcome notice.Ending
	At      stamp
	ID      string
	Last    text
}

// endings returns the visible finalized notices of a key, latest first; with an id only those with that
// webhook-id.
func (p *Pages) endings(ctx context.Context, key, id string, v Visitor) ([]history.Row, error) {
	if p.o.History == nil || !keys.Valid(key) || !v.Covers(key) {
		return nil, nil
	}

	page, err := p.o.History.Find(ctx, history.Query{Key: key, ID: id, Limit: mostEndings})
	if err != nil {
		f := p.historyFailure(ctx, err)
		f.text = both(say("The notice is not in Redis."), f.text)
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

// historyFailure returns the failure for an error of the history.
func (p *Pages) historyFailure(ctx context.Context, err error) failure {
	switch {
	case errors.Is(err, history.ErrBusy):
		return failure{http.StatusTooManyRequests, say("Too many searches of the history are running. Try again.")}
	case errors.Is(err, history.ErrSlow):
		return failure{http.StatusUnprocessableEntity, say("The search of the history took too long: choose a shorter window, a host or a " +
			"state.")}
	}

	if ctx.Err() == nil {
		p.log.Warn("cannot search the history", zap.Error(err))
	}

	switch {
	case errors.Is(err, history.ErrForeign):
		return failure{http.StatusServiceUnavailable, say("The history database belongs to another service. Run `notifier doctor`.")}
	case errors.Is(err, history.ErrNewer):
		return failure{http.StatusServiceUnavailable, say("The schema of the history database is newer than this instance. Use an instance of " +
			"the newer version.")}
	}

	return failure{http.StatusServiceUnavailable, say("The history database is unavailable. Try again.")}
}

// remembered returns an entry of the history in the form of a notice in Redis.
func remembered(r *history.Row) store.Found {
	return store.Found{Notice: r.Notice, State: notice.State(r.Outcome), SettledAt: r.Ended.Truncate(time.Millisecond)}
}

// entryPath returns the address of an entry of the history.
func entryPath(r *history.Row) string {
	return Root + "notices/" + r.Key + "?ended=" + entryName(r)
}

// entryName identifies an entry among those of its key.
func entryName(r *history.Row) string { return r.ID() + "." + strconv.Itoa(r.Number) }

// entry returns the entry with a name among those of a key, by default the last one; nil if there is none.
// An entry that is not among the last ones is read by its webhook-id.
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

// showEnded serves the finalized notices of a key. If the history has none, it returns otherwise.
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

	page := p.endedPage(r, last, rows, v)
	page.FoundBy = p.foundBy(r.URL.Query())
	return p.render(w, r, http.StatusOK, view{Title: plain(key), Section: say("Notices"), Visitor: v, Content: noticeContent(page)})
}

// endedPage is the page of one finalized notice from the history.
func (p *Pages) endedPage(r *http.Request, last *history.Row, rows []history.Row, v Visitor) noticePage {
	named := r.URL.Query().Has("ended") // the address names the entry
	f := remembered(last)
	if p.reveal(r.Context(), v, &f) {
		p.noteOpened(r, v, audit.Entry{Key: f.Key})
	}

	c := p.chronicle(r.Context(), &f, v)
	c.Changes = slices.DeleteFunc(c.Changes, func(e audit.Entry) bool { return e.At.After(f.SettledAt.Add(clockError)) })
	page := p.noticePage(&f, c, Visitor{session: v.session})
	page.Ended, page.Older = true, len(rows) > 0 && entryName(last) != entryName(&rows[0])
	page.May, page.MayCancel, page.MayFire, page.MayRedrive, page.MayTest = false, false, false, false, false
	if !page.Older && !named && v.mayResend() && resendable(&f) { // Redis does not keep the notice
		page.May, page.MayResend, page.CSRF = true, true, v.CSRF
		page.Expired = false // it is resent without its expiry
	}

	page.Host, page.History, page.Now = last.Host, false, named
	p.hideAnswers(&page, last)
	if !last.WasSealed() || !last.BodyKept {
		page.Body.Size = last.BodySize
	}

	if !last.BodyKept {
		page.Body.Kind = say("not kept (`NOTIFIER_HISTORY_BODIES`)")
		if last.BodyHash != nil {
			page.Body.Kind = say("not kept, SHA-256 `%s`", hex.EncodeToString(last.BodyHash))
		}
	}

	for i := range rows {
		page.Endings = append(page.Endings, p.endedRow(&rows[i], last, v))
	}

	return page
}

// hideAnswers hides the answers of an entry that lacks its body or a secret, if anything is
// masked: without them, an answer that repeats them cannot be masked.
func (p *Pages) hideAnswers(page *noticePage, last *history.Row) {
	if p.o.Mask.None() || last.BodyKept && len(last.Withheld) == 0 && !history.PasswordWithheld(last.URL) {
		return
	}

	for i := range page.Steps {
		if page.Steps[i].Answer != "" {
			page.Steps[i].Answer = mask.Hidden
		}
	}
}

// endedRow is the line of one ending in the list of a key's endings.
func (p *Pages) endedRow(x, shown *history.Row, v Visitor) endedRow {
	return endedRow{Path: entryPath(x), Here: entryName(x) == entryName(shown), Number: x.Number, Outcome: x.Outcome, At: p.stamp(x.Ended),
		ID: x.ID(), Last: v.last(x)}
}

// last returns the result of the last attempt of an entry, or what is known instead.
func (v Visitor) last(x *history.Row) text {
	n := len(x.Attempts)
	switch {
	case len(x.Damaged) > 0:
		return say("unreadable: %s", x.Damaged)
	case n > 0:
		return v.result(x.Attempts[n-1])
	case x.Reason != "":
		return v.reason(x.Reason)
	}

	return nil
}
