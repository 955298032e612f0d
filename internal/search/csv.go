package search

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"notifier/internal/callback"
	"notifier/internal/history"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// MostRows is the maximum number of rows of a file.
const MostRows = 100_000

// FileType is the content type of a file.
const FileType = "text/csv; charset=utf-8"

// Download selects the matches of a file that is an answer.
type Download struct {
	Query
	Scope
	Mask *mask.Rules
	Now  time.Time // names the file
}

// Serve answers with a file that a browser stores. An error means that nothing was written, so that the caller can
// answer. If the file cannot be finished, Serve panics with [http.ErrAbortHandler], which tells the reader.
func (s *Searcher) Serve(ctx context.Context, w http.ResponseWriter, d Download) error {
	h := w.Header()
	h.Set("Content-Type", FileType)
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="notices-%s.csv"`, d.Now.UTC().Format("20060102-150405")))
	written, err := s.File(ctx, patient{w, http.NewResponseController(w)}, d.Query, d.Scope, d.Mask)
	if written && err != nil {
		panic(http.ErrAbortHandler)
	}

	if err != nil {
		h.Del("Content-Disposition")
	}

	return err
}

// patient extends the deadline of the answer before each write.
type patient struct {
	io.Writer
	control *http.ResponseController
}

// fileStep is the time limit of one write of a file.
const fileStep = 30 * time.Second

func (p patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(fileStep)) // not every connection has one
	return p.Writer.Write(b)
}

// csvHead has the names of the columns.
var csvHead = []string{"stored_in", "key", "webhook_id", "state", "reason", "route", "host", "due", "ended_at", "attempts", "last_status",
	"last_answer", "url", "body"}

// mostCell is the maximum length of a cell in bytes: a spreadsheet takes 32,767 characters.
const mostCell = 32_000

// File writes the matches of a query as CSV, with the content that masking rules leave. It stops after MostRows rows
// and says so in the last one. written reports whether some of the file was written before an error.
func (s *Searcher) File(ctx context.Context, w io.Writer, q Query, scope Scope, rules *mask.Rules) (written bool, err error) {
	s.locate(ctx, &q, scope)
	s.widen(ctx, &q, scope)
	hq, parts, why := s.pastQuery(ctx, q, scope)
	if why == NeedsTime || why == NoHistory && q.Text != "" {
		return false, &Unsearched{why}
	}

	f := &file{s: s, out: csv.NewWriter(w), rules: rules, redis: map[history.Name]bool{}}
	f.out.UseCRLF = true
	if err := f.live(ctx, q, scope); err != nil {
		return f.begun, err
	}

	if why == Searched && hq != nil {
		if err := f.past(ctx, hq, parts, scope); err != nil {
			return f.begun, err
		}
	}

	if f.rows > MostRows {
		err = f.out.Write([]string{"more than " + strconv.Itoa(MostRows) + " rows: the rest is left out"})
	}

	if err2 := f.flush(); err == nil {
		err = err2
	}

	return f.begun, err
}

// Unsearched is the error of a file that would lack the section of the history: a search of texts without a history, or
// of texts and parts of keys without a time.
type Unsearched struct{ Why Why }

func (u *Unsearched) Error() string { return "the history cannot be searched" }

type file struct {
	s     *Searcher
	out   *csv.Writer
	rules *mask.Rules
	rows  int // also the first that was left out
	begun bool
	redis map[history.Name]bool // finalized notices of Redis in the file
}

func (f *file) flush() error {
	if !f.begun {
		f.begun = true
		if err := f.out.Write(csvHead); err != nil {
			return err
		}
	}

	f.out.Flush()
	return f.out.Error()
}

// write writes a row, and the head before the first one.
func (f *file) write(cells ...string) error {
	if !f.begun {
		if err := f.flush(); err != nil {
			return err
		}
	}

	if f.rows++; f.rows > MostRows {
		return nil
	}

	for i := range cells {
		cells[i] = safeCell(cells[i])
	}

	return f.out.Write(cells)
}

func (f *file) live(ctx context.Context, q Query, scope Scope) error {
	for page := (Page{Limit: step, Uncounted: true}); f.rows <= MostRows; {
		var l Live
		if err := f.s.live(ctx, q, scope, page, &l); err != nil || l.Why == Failed {
			return cmp.Or(err, l.Err)
		}

		f.s.mark(ctx, &l)
		for i := range l.Items {
			x, in := &l.Items[i], "redis"
			if n, ended := nameOf(x); ended {
				f.redis[n] = true
			}

			if l.Marked(x) {
				in = "both"
			}

			if err := f.notice(in, x, f.s.HostOf(x.Notice)); err != nil {
				return err
			}
		}

		if page.Live = l.Cursor; page.Live == "" {
			return nil
		}
		if err := f.flush(); err != nil {
			return err
		}
	}

	return nil
}

func (f *file) past(ctx context.Context, hq *history.Query, parts []string, scope Scope) error {
	for hq.Limit = 1000; f.rows <= MostRows; {
		got, err := f.s.merged(ctx, *hq, parts)
		if err != nil {
			return err
		}

		for i := range got.Rows {
			r := &got.Rows[i]
			if !scope.sees(r.Notice, r.Host) || f.redis[history.Name{ID: r.ID(), Number: r.Number}] {
				continue
			}

			x := store.Found{Notice: r.Notice, State: notice.State(r.Outcome), SettledAt: r.Ended}
			if err := f.notice("history", &x, r.Host); err != nil {
				return err
			}
		}

		if hq.Cursor = got.Cursor; hq.Cursor == "" {
			return nil
		}
		if err := f.flush(); err != nil {
			return err
		}
	}

	return nil
}

// notice writes one row.
func (f *file) notice(in string, x *store.Found, host string) error {
	content := f.rules.Notice(x.Notice)
	body, ok := content.Body()
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	if !ok {
		text = mask.Hidden
	}

	if x.Sealed != "" {
		text = sealedCell
	}

	status, answer := "", ""
	if n := len(x.Attempts); n > 0 {
		last := x.Attempts[n-1]
		if answer = content.AnswerText(last.Response); last.Sealed != "" {
			answer = sealedCell
		}

		if last.Status != 0 {
			status = strconv.Itoa(last.Status)
		}
	}

	route := f.s.Routes.NameOf(x.Route)
	return f.write(in, x.Key, x.ID(), string(x.State), string(x.Reason), route, host, stamp(x.Due), stamp(x.SettledAt),
		strconv.Itoa(x.AttemptsMade), status, answer, addressCell(content, x.URLSealed), text)
}

// sealedCell is in place of a sealed text.
const sealedCell = "sealed"

// addressCell returns the url of a notice.
func addressCell(content *mask.View, sealed bool) string {
	address, _ := content.URL()
	switch {
	case address == "":
		return ""
	case sealed:
		return callback.RedactURL(address) + " (query sealed)"
	}

	return callback.RedactURL(address)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(notice.StampLayout)
}

// lines are the ends of lines in cells.
var lines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// safeCell returns a cell without invisible characters that no spreadsheet takes for a formula.
func safeCell(s string) string {
	if len(s) > mostCell {
		s = strings.ToValidUTF8(s[:mostCell], "") + "…"
	}

	s = strings.Map(func(r rune) rune {
		if notice.Invisible(r) {
			return unicode.ReplacementChar
		}
		return r
	}, lines.Replace(s))

	if first := strings.TrimLeft(s, " \u00a0\ufffd\n"); first != "" && strings.ContainsRune("=+-@\t＝＋－＠", []rune(first)[0]) {
		return "'" + s
	}

	return s
}
