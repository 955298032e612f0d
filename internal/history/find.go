package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// Query selects entries, the latest first. Empty fields select all.
type Query struct {
	// Client is the name of the caller, whose text searches are limited.
	Client string
	Key    string
	// ID is a webhook-id.
	ID string
	// Prefix is app, app:module or app:module:type.
	Prefix string
	// Part is a part of a key or, with a colon, the beginning of one. It needs Since, unless the part
	// contains the three colons of app:module:type:id.
	Part string
	// Route is a route's prefix.
	Route    string
	Host     string
	Outcomes []notice.Ending
	Reason   notice.Reason
	// Since and Until bound the time of the entry; Until is exclusive.
	Since, Until time.Time
	// Text is searched in bodies and answers, ignoring case. It needs Since, and leaves sealed rows out.
	Text   string
	Limit  int
	Cursor string
}

// Page is one page of a listing. The last page has no Cursor.
type Page struct {
	Rows   []Row
	Cursor string
}

// FindTimeout is the time limit of one search.
const FindTimeout = 10 * time.Second

// cursor is the position of a listing: after this row.
type cursor struct {
	Ended  int64  `json:"t"` // Unix µs
	ID     string `json:"i"`
	Ending int    `json:"n"`
}

func (c cursor) String() string {
	text, _ := json.Marshal(c)
	return string(text)
}

// Find returns one page of entries. It returns ErrBusy if the maximum number of text searches is running.
func (d *DB) Find(ctx context.Context, q Query) (Page, error) {
	if q.Unindexed() {
		if !d.texts.begin(q.Client) {
			return Page{}, ErrBusy
		}
		defer d.texts.end(q.Client)
	}

	if err := d.Begin(ctx); err != nil {
		return Page{}, err
	}

	text, args, err := d.question(q)
	if err != nil {
		return Page{}, err
	}

	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	from := d.searches
	if q.isLookup() {
		from = d.lookups
	}

	page, err := d.page(ctx, from, text, args, q.Limit)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if q.isLookup() {
			return Page{}, fmt.Errorf("%w: no answer about one key within %s", ErrUnavailable, notice.Short(FindTimeout))
		}
		return Page{}, fmt.Errorf("%w: more than %s; ask for a shorter window, or for a key, a host or an outcome as well", ErrSlow,
			notice.Short(FindTimeout))
	}

	return page, d.wrap("find", err)
}

// Latest returns the last entry of a key; ok is false if there is none.
func (d *DB) Latest(ctx context.Context, key string) (row Row, ok bool, err error) {
	page, err := d.Find(ctx, Query{Key: key, Limit: 1})
	if err != nil || len(page.Rows) == 0 {
		return Row{}, false, err
	}

	return page.Rows[0], true, nil
}

// Number returns the highest number of an entry of one notice, given by key and webhook-id; 0 = none.
func (d *DB) Number(ctx context.Context, key, id string) (n int, err error) {
	if err := d.Begin(ctx); err != nil {
		return 0, err
	}

	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	c := &conditions{d: d}
	c.restrict(Query{Key: key})
	c.add("id = "+at, id)
	err = d.lookups.QueryRowContext(ctx, "SELECT COALESCE(MAX(ending), 0) FROM history"+c.where(), c.args...).Scan(&n)
	return n, d.wrap("number", err)
}

// conditions collects the conditions of a WHERE clause.
type conditions struct {
	d    *DB
	all  []string
	args []any
}

// add adds a condition. Each at in it is a placeholder for one argument.
func (c *conditions) add(text string, args ...any) {
	for _, a := range args {
		c.args = append(c.args, a)
		mark := "?"
		if !c.d.sqlite {
			mark = fmt.Sprintf("$%d", len(c.args))
		}

		text = strings.Replace(text, "\x00", mark, 1)
	}

	c.all = append(c.all, text)
}

const at = "\x00" // placeholder of an argument

func (d *DB) time(t time.Time) any {
	if d.sqlite {
		return t.UnixMicro()
	}
	return t
}

// restrict adds the conditions of a query, except its cursor.
func (c *conditions) restrict(q Query) {
	if q.Key != "" {
		k := parts(q.Key)
		c.add("app = "+at+" AND module = "+at+" AND type = "+at+" AND name = "+at, k.App, k.Module, k.Type, k.ID)
	}

	if q.ID != "" {
		c.add("id = "+at, q.ID)
	}

	if q.Prefix != "" {
		for i, p := range strings.SplitN(q.Prefix, ":", 3) {
			c.add(keyColumns[i]+" = "+at, p)
		}
	}

	c.part(q.Part)
	if q.Route != "" {
		c.add("route = "+at, q.Route)
	}

	if q.Host != "" {
		c.add("host = "+at, q.Host)
	}

	c.outcomes(q.Outcomes)
	if q.Reason != "" {
		c.add("reason = "+at+" AND reason <> ''", string(q.Reason)) // the second part matches the condition of the index
	}

	if !q.Since.IsZero() {
		c.add("ended >= "+at, c.d.time(q.Since))
	}

	if !q.Until.IsZero() {
		c.add("ended < "+at, c.d.time(q.Until))
	}

	c.text(q.Text)
}

func (c *conditions) outcomes(all []notice.Ending) {
	if len(all) == 0 {
		return
	}

	some, list := make([]string, len(all)), make([]any, len(all))
	undelivered := true
	for i, o := range all {
		some[i], list[i] = at, string(o)
		undelivered = undelivered && o != notice.EndDelivered
	}

	c.add("outcome IN ("+strings.Join(some, ", ")+")", list...)
	if undelivered {
		c.add("outcome <> 'delivered'") // matches the condition of the index
	}
}

// unsealed leaves sealed rows out, so that a search does not match sealed texts by chance.
const unsealed = "body_size >= 0 AND "

func (c *conditions) text(text string) {
	if text == "" {
		return
	}

	word := plain(text)
	inJSON := strings.Trim(encode(word), `"`)
	if c.d.sqlite {
		c.add(unsealed+"(instr(lower(body_text), lower("+at+")) > 0 OR instr(lower(attempts), lower("+at+")) > 0)", word, inJSON)
	} else {
		c.add(unsealed+"(strpos(lower(body_text), lower("+at+"::text)) > 0 OR strpos(lower(attempts), lower("+at+"::text)) > 0)", word, inJSON)
	}
}

// keyColumns hold the four segments of a key.
var keyColumns = []string{"app", "module", "type", "name"}

// afterKeys sorts after each character of a key.
const afterKeys = "\x7f"

// part adds the condition for Query.Part.
func (c *conditions) part(part string) {
	if part == "" {
		return
	}

	segments := strings.SplitN(part, ":", len(keyColumns))
	last := len(segments) - 1
	if last == 0 {
		find := "strpos"
		if c.d.sqlite {
			find = "instr"
		}

		c.add(find+"("+strings.Join(keyColumns, " || ':' || ")+", "+at+") > 0", part)
		return
	}

	for i, text := range segments[:last] {
		c.add(keyColumns[i]+" = "+at, text)
	}

	if text := segments[last]; text != "" {
		c.add(keyColumns[last]+" >= "+at+" AND "+keyColumns[last]+" < "+at, text, text+afterKeys)
	}
}

// where returns the WHERE clause; empty without conditions.
func (c *conditions) where() string {
	if len(c.all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.all, " AND ")
}

// question returns the statement that reads a page and one more row.
func (d *DB) question(q Query) (text string, args []any, err error) {
	c := &conditions{d: d}
	c.restrict(q)
	if q.Cursor != "" {
		var from cursor
		if json.Unmarshal([]byte(q.Cursor), &from) != nil || from.Ended <= 0 {
			return "", nil, ErrCursor
		}

		t := d.time(time.UnixMicro(from.Ended).UTC())
		// The first condition bounds the scan, the second is exact.
		c.add("ended <= "+at, t)
		c.add("(ended, id, ending) < ("+at+", "+at+", "+at+")", t, from.ID, from.Ending)
	}

	text = "SELECT " + strings.Join(columns, ", ") + " FROM history" + c.where()
	return fmt.Sprintf("%s ORDER BY ended DESC, id DESC, ending DESC LIMIT %d", text, max(q.Limit, 1)+1), c.args, nil
}

func (d *DB) page(ctx context.Context, from *sql.DB, text string, args []any, limit int) (Page, error) {
	rows, err := from.QueryContext(ctx, text, args...)
	if err != nil {
		return Page{}, err
	}

	defer rows.Close()

	var p Page

	for rows.Next() {
		r, err := d.scan(rows)
		if err != nil {
			return Page{}, err
		}

		p.Rows = append(p.Rows, r)
	}

	if err := rows.Err(); err != nil {
		return Page{}, err
	}

	if limit = max(limit, 1); len(p.Rows) > limit {
		last := p.Rows[limit-1]
		p.Rows, p.Cursor = p.Rows[:limit], CursorAfter(&last)
	}

	return p, nil
}

// CursorAfter returns the cursor of a listing that continues after a row.
func CursorAfter(r *Row) string {
	if r.Ended.IsZero() { // SQLite sorts a damaged time first
		return cursor{Ended: math.MaxInt64}.String()
	}
	return cursor{r.Ended.UnixMicro(), r.ID(), r.Number}.String()
}

// moment reads a time as either database returns it.
type moment struct{ time.Time }

// Scan implements sql.Scanner.
func (m *moment) Scan(v any) error {
	switch v := v.(type) {
	case int64:
		m.Time = time.UnixMicro(v).UTC()
	case time.Time:
		m.Time = v.UTC()
	default:
		return fmt.Errorf("a time is %T", v)
	}

	return nil
}

// scan reads a row, after the given columns.
func (d *DB) scan(rows *sql.Rows, before ...any) (Row, error) {
	f := newRowReader(columns)
	if err := rows.Scan(f.targets(before...)...); err != nil {
		return Row{}, err
	}

	return readRow(f), nil
}

// readRow returns the Row of column values, in the order of the columns.
func readRow(f *rowReader) Row {
	n := &notice.Notice{}
	r := Row{Notice: n, Ended: f.time()}
	_ = f.text() // the id, which follows from Made and Key
	r.Number = int(f.number())
	n.Endings = r.Number - 1
	n.Key = readKey(f)
	n.Route, r.Host, r.Outcome = f.text(), f.text(), readOutcome(f)
	n.Reason, n.Due, n.Made = notice.Reason(f.text()), f.time(), notice.Made(f.number())
	n.AttemptsMade, n.URL, n.Audience, n.Method, n.ContentType = int(f.number()), f.text(), f.text(), f.text(), f.text()
	n.Ladder = readRetry(f)
	n.Traceparent = f.text()
	n.Headers, r.Withheld = readHeaders(f)
	readAttempts(f, n)

	r.BodySize, r.BodyHash = int(f.number()), f.optionalBytes()
	text, body := f.optionalText(), f.optionalBytes()

	switch {
	case n.Sealed != "":
		r.BodyKept = true
	case text != nil:
		n.Body, r.BodyKept = []byte(*text), true
	case body != nil:
		n.Body, r.BodyKept = body, true
	default:
		r.BodyKept = r.BodySize == 0
	}

	r.Damaged = f.damaged
	return r
}

func readKey(f *rowReader) string {
	k := keys.Key{App: f.text(), Module: f.text(), Type: f.text(), ID: f.text()}
	if k.App == "" {
		return k.ID
	}

	return k.String()
}

func readOutcome(f *rowReader) notice.Ending {
	o := notice.Ending(f.text())
	if !slices.Contains(notice.Endings, o) {
		f.damage()
	}

	return o
}

func readRetry(f *rowReader) notice.Ladder {
	text := f.optionalText()
	if text == nil {
		return nil
	}

	l, err := notice.ParseLadder(*text)
	if err != nil {
		f.damage()
		return nil
	}

	return l
}
