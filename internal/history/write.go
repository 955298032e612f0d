package history

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"notifier/internal/notice"
)

// Written is the result of Write.
type Written struct {
	Rows   int // new rows
	Bare   int // new rows without the columns that the database rejected
	Erased int // rows kept out by an erasure
}

// Write writes rows in one transaction, except those that exist. It may be repeated. If the database rejects
// a row's content, the row is written without body, headers and attempts.
func (d *DB) Write(ctx context.Context, rows []Row) (Written, error) {
	if err := d.Begin(ctx); err != nil {
		return Written{}, err
	}

	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	if err := d.makeDays(ctx, rows); err != nil {
		return Written{}, d.wrap("partition", err)
	}

	w, err := d.write(ctx, rows)
	if err == nil || d.driver.Fault(err) != Content {
		if err != nil {
			d.forgetDays()
		}
		return w, d.wrap("write", err)
	}

	if len(rows) > 1 {
		// Some rows are rejected.
		half := len(rows) / 2
		a, err := d.Write(ctx, rows[:half])
		if err != nil {
			return a, err
		}

		b, err := d.Write(ctx, rows[half:])
		return Written{a.Rows + b.Rows, a.Bare + b.Bare, a.Erased + b.Erased}, err
	}

	w, berr := d.write(ctx, []Row{bareOf(rows[0])})
	if berr != nil {
		return w, d.wrap("write", err)
	}

	w.Bare = w.Rows
	return w, nil
}

// bareOf returns a row without the columns that the database may have rejected. The names of its headers
// stay, so that it is not sent again without them.
func bareOf(r Row) Row {
	n := *r.Notice
	n.Body, n.Attempts, n.URL, n.Audience, n.ContentType, n.Traceparent = nil, nil, "", "", "", ""
	n.Sealed, n.Same, n.URLSealed = "", "", false
	n.Headers, r.Withheld = nil, nil
	for _, h := range r.Notice.Headers {
		n.Headers, r.Withheld = append(n.Headers, notice.Header{Name: h.Name}), append(r.Withheld, h.Name)
	}

	r.Notice, r.BodyKept, r.BodyHash = &n, false, nil
	return r
}

func (d *DB) write(ctx context.Context, rows []Row) (w Written, err error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return w, err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	if !d.sqlite {
		// Before the erasures are read: an erasure waits for every writer that has not seen it.
		if _, err := tx.ExecContext(ctx, "LOCK TABLE history IN ROW EXCLUSIVE MODE"); err != nil {
			return w, err
		}
	}

	if err := d.own(ctx, tx); err != nil {
		return w, err
	}
	if rows, err = d.unerased(ctx, tx, rows, &w); err != nil {
		return w, err
	}

	insert := d.insertPostgres
	if d.sqlite {
		insert = d.insertSQLite
	}

	if err := d.copyKeys(ctx, tx, rows); err != nil {
		return w, err
	}

	if len(rows) > 0 {
		added, err := insert(ctx, tx, rows)
		if err != nil {
			return w, err
		}

		w.Rows = len(added)
		if err := d.addHours(ctx, tx, added); err != nil {
			return w, err
		}
	}

	return w, tx.Commit()
}

// digest returns the text by which an erasure is stored, which does not reveal the erased key or host.
func digest(kind, value string) string {
	sum := sha256.Sum256([]byte(kind + " " + value))
	return string(sum[:])
}

// types are the types of the columns in PostgreSQL.
var types = []string{"timestamptz", "text", "int4", "text", "text", "text", "text", "text", "text", "text", "text", "timestamptz", "int8",
	"int4", "text", "text", "text", "text", "text", "text", "text", "text", "int4", "bytea", "text", "bytea"}

// One statement for any number of rows: each column is an array.
var insertPostgres = func() string {
	arrays := make([]string, len(types))
	for i, t := range types {
		arrays[i] = fmt.Sprintf("$%d::%s[]", i+1, t)
	}

	return "INSERT INTO history (" + strings.Join(columns, ", ") + ") SELECT * FROM unnest(" + strings.Join(arrays, ", ") +
		") ON CONFLICT DO NOTHING RETURNING ended, id, ending"
}()

// insertPostgres returns the rows that the database did not have.
func (d *DB) insertPostgres(ctx context.Context, tx *sql.Tx, rows []Row) ([]Row, error) {
	n := len(rows)
	texts := func(of func(r *Row) string) []string {
		list := make([]string, n)
		for i := range rows {
			list[i] = plain(of(&rows[i]))
		}

		return list
	}
	ints := func(of func(r *Row) int) []int32 {
		list := make([]int32, n)
		for i := range rows {
			list[i] = int32(of(&rows[i]))
		}

		return list
	}
	ended, due, made := make([]time.Time, n), make([]time.Time, n), make([]int64, n)
	app, module, typ, name := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	retry, bodyText := make([]*string, n), make([]*string, n)
	hash, body := make([][]byte, n), make([][]byte, n)

	for i := range rows {
		r := &rows[i]
		ended[i], due[i], made[i] = r.Ended, r.Due, int64(r.Made)
		k := parts(r.Key)
		app[i], module[i], typ[i], name[i] = k.App, k.Module, k.Type, k.ID
		retry[i], bodyText[i], body[i], hash[i] = ladderOf(r), textOf(r), bytesOf(r), r.BodyHash
	}

	res, err := tx.QueryContext(ctx, insertPostgres, ended, texts(func(r *Row) string { return r.ID() }),
		ints(func(r *Row) int { return r.Number }),
		app, module, typ, name, texts(func(r *Row) string { return r.Route }), texts(func(r *Row) string { return r.Host }),
		texts(func(r *Row) string { return string(r.Outcome) }), texts(func(r *Row) string { return string(r.Reason) }), due, made,
		ints(func(r *Row) int { return r.AttemptsMade }), texts(func(r *Row) string { return r.URL }),
		texts(func(r *Row) string { return r.Audience }),
		texts(func(r *Row) string { return r.Method }), texts(func(r *Row) string { return r.ContentType }), retry,
		texts(func(r *Row) string { return r.Traceparent }), texts(headersText), texts(func(r *Row) string { return attemptsText(r.Notice) }),
		ints(func(r *Row) int { return r.BodySize }), hash, bodyText, body)
	if err != nil {
		return nil, err
	}

	return returned(res, rows)
}

// returned returns the rows whose names an insertion has returned.
func returned(res *sql.Rows, rows []Row) ([]Row, error) {
	defer res.Close()

	added := make(map[cursor]bool, len(rows))
	for res.Next() {
		var at moment
		var x cursor
		if err := res.Scan(&at, &x.ID, &x.Ending); err != nil {
			return nil, err
		}

		x.Ended = at.UnixMicro()
		added[x] = true
	}

	list := make([]Row, 0, len(added))
	for i := range rows {
		x := cursor{rows[i].Ended.UnixMicro(), rows[i].ID(), rows[i].Number}
		if added[x] {
			list = append(list, rows[i])
			delete(added, x) // a batch may have an entry twice
		}
	}

	return list, res.Err()
}

var insertSQLite = "INSERT INTO history (" + strings.Join(columns, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(columns)-1) +
	") ON CONFLICT DO NOTHING"

// insertSQLite returns the rows that the database did not have.
func (d *DB) insertSQLite(ctx context.Context, tx *sql.Tx, rows []Row) ([]Row, error) {
	insert, err := tx.PrepareContext(ctx, insertSQLite)
	if err != nil {
		return nil, err
	}

	defer insert.Close()

	added := make([]Row, 0, len(rows))

	for i := range rows {
		r := &rows[i]
		k := parts(r.Key)
		res, err := insert.ExecContext(ctx, r.Ended.UnixMicro(), r.ID(), r.Number, k.App, k.Module, k.Type, k.ID, plain(r.Route), plain(r.Host),
			string(r.Outcome), plain(string(r.Reason)), r.Due.UnixMicro(), int64(r.Made), r.AttemptsMade, plain(r.URL), plain(r.Audience),
			plain(r.Method), plain(r.ContentType), ladderOf(r), plain(r.Traceparent), headersText(r), attemptsText(r.Notice), r.BodySize,
			r.BodyHash, textOf(r), bytesOf(r))
		if err != nil {
			return nil, err
		}

		n, err := res.RowsAffected()
		if err != nil {
			return nil, err
		}

		if n > 0 {
			added = append(added, rows[i])
		}
	}

	return added, nil
}

func ladderOf(r *Row) *string {
	if r.Ladder == nil {
		return nil
	}

	text := r.Ladder.String()
	return &text
}

// textOf and bytesOf return the body, if it is stored: as text if it is text.
func textOf(r *Row) *string {
	if !r.BodyKept || !textual(r.Body) {
		return nil
	}

	text := string(r.Body)
	return &text
}

func bytesOf(r *Row) []byte {
	if !r.BodyKept || textual(r.Body) {
		return nil
	}
	return r.Body
}
