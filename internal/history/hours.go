package history

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"notifier/internal/notice"
)

// The table history_hours counts the entries of each hour in UTC by the first three segments of the key, route, host, and
// a number what: the outcome, or the bin of a delivery's latency. Each entry counts in one row of the table. The
// transaction that inserts or erases entries changes the counts.

// cell identifies a row of history_hours.
type cell struct {
	hour                          int64 // Unix µs
	app, module, typ, route, host string
	what                          int
}

// cells are numbers of entries.
type cells map[cell]int64

// Values of the column what. Migration 9 lists them, and the database stores them: they must not change.
const (
	whatDead, whatCancelled, whatReplaced = -1, -2, -3
	// whatLater is a delivery that is not the notice's first ending. It is added to the other outcomes of such an ending.
	whatLater = -10
	// whatFirst is added to the bin if the first attempt was acknowledged.
	whatFirst = 1000
)

// edges are the upper ends of the latency's bins in µs; bin 1 ends with edges[0]. Bin 0 has deliveries of unknown latency.
// The ends grow by a tenth, so the middle of a bin differs from each latency in it by at most 4.8 %, or 1 ms. A
// minute, an hour and a day are ends too.
var edges = func() []int64 {
	list := []int64{minute, hour, day}
	for edge := 1000.0; edge < 400*float64(day); edge *= 1.1 {
		list = append(list, int64(edge+0.5))
	}

	slices.Sort(list)
	return list
}()

const (
	minute = int64(time.Minute / time.Microsecond)
	hour   = int64(time.Hour / time.Microsecond)
	day    = 24 * hour
)

// binOf returns the bin of a latency in µs.
func binOf(latency int64) int {
	i, _ := slices.BinarySearch(edges, latency)
	return min(i, len(edges)-1) + 1
}

// latencyOf returns the latency that stands for a bin.
func latencyOf(bin int) time.Duration {
	to := edges[bin-1]
	if bin == 1 {
		return time.Duration(to) * time.Microsecond
	}

	from := edges[bin-2]
	return time.Duration(2*float64(from)*float64(to)/float64(from+to)) * time.Microsecond
}

// counted are the columns of an entry that its cell depends on.
type counted struct {
	ended        time.Time
	number       int
	app, module  string
	typ          string
	route, host  string
	outcome      notice.Ending
	attemptsMade int
	first        time.Time // start of the first kept attempt; zero = unknown
}

const countedColumns = "ended, ending, app, module, type, route, host, outcome, attempts_made, attempts"

func (c *counted) cell() cell {
	at := c.ended.UnixMicro()
	return cell{hour: at - at%hour, app: c.app, module: c.module, typ: c.typ, route: c.route, host: c.host, what: c.what()}
}

func (c *counted) what() int {
	what, base := 0, 0
	if c.number > 1 {
		base = whatLater
	}

	switch c.outcome {
	case notice.EndDead:
		return base + whatDead
	case notice.EndCancelled:
		return base + whatCancelled
	case notice.EndReplaced:
		return base + whatReplaced
	}

	if base != 0 {
		return base
	}

	if !c.first.IsZero() {
		what = binOf(max(c.ended.Sub(c.first).Microseconds(), 0))
	}

	if c.attemptsMade <= 1 {
		what += whatFirst
	}

	return what
}

// countedOf returns the counted columns of a row that was inserted.
func countedOf(r *Row) counted {
	k := parts(r.Key)
	c := counted{ended: r.Ended, number: r.Number, app: k.App, module: k.Module, typ: k.Type, route: plain(r.Route), host: plain(r.Host),
		outcome: r.Outcome, attemptsMade: r.AttemptsMade}
	if len(r.Attempts) > 0 {
		c.first = r.Attempts[0].At.Truncate(time.Millisecond) // as in the column attempts
	}

	return c
}

// count adds rows of the database, which have the columns countedColumns. It returns the number of rows.
func (c cells) count(rows *sql.Rows) (n int64, err error) {
	defer rows.Close()

	for rows.Next() {
		f := newRowReader(strings.Split(countedColumns, ", "))
		if err := rows.Scan(f.targets()...); err != nil {
			return n, err
		}

		n++
		x := counted{ended: f.time(), number: int(f.number()), app: f.text(), module: f.text(), typ: f.text(), route: f.text(), host: f.text(),
			outcome: notice.Ending(f.text()), attemptsMade: int(f.number())}
		var attempts []struct{ At time.Time }
		if json.Unmarshal([]byte(f.text()), &attempts) == nil && len(attempts) > 0 {
			x.first = attempts[0].At
		}

		c[x.cell()]++
	}

	return n, rows.Err()
}

// sorted returns the cells in one order for all writers, so that they do not wait for each other in a circle.
func (c cells) sorted() []cell {
	return slices.SortedFunc(maps.Keys(c), func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.hour, b.hour), cmp.Compare(a.app, b.app), cmp.Compare(a.module, b.module), cmp.Compare(a.typ, b.typ),
			cmp.Compare(a.route, b.route), cmp.Compare(a.host, b.host), cmp.Compare(a.what, b.what))
	})
}

// addHours adds rows that were inserted to the counts of their hours.
func (d *DB) addHours(ctx context.Context, tx *sql.Tx, rows []Row) error {
	c := cells{}
	for i := range rows {
		x := countedOf(&rows[i])
		c[x.cell()]++
	}

	return d.addCells(ctx, tx, c)
}

const (
	cellsPostgres = "unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int2[], $8::int8[])"
	cellNames     = "hour, app, module, type, route, host, what"
	insertCells   = "INSERT INTO history_hours (" + cellNames + ", n) "
	addToCell     = " ON CONFLICT (" + cellNames + ") DO UPDATE SET n = history_hours.n + excluded.n"
	thisCell      = " WHERE hour = ? AND app = ? AND module = ? AND type = ? AND route = ? AND host = ? AND what = ?"
	sameCell      = " FROM " + cellsPostgres + " AS x (" + cellNames + ", n) WHERE h.hour = x.hour AND h.app = x.app AND " +
		"h.module = x.module AND h.type = x.type AND h.route = x.route AND h.host = x.host AND h.what = x.what"
)

func (d *DB) addCells(ctx context.Context, tx *sql.Tx, c cells) error {
	if d.sqlite {
		return c.each(ctx, tx, insertCells+"VALUES (?, ?, ?, ?, ?, ?, ?, ?)"+addToCell, true)
	}

	_, err := tx.ExecContext(ctx, insertCells+"SELECT * FROM "+cellsPostgres+addToCell, c.arrays()...)
	return err
}

// takeCells subtracts erased entries, and deletes rows without entries. An erased entry may not have been counted yet: the
// count of its hour is then too low until Recount repairs it, and no row is below zero, because it would keep
// the name of an erased host.
func (d *DB) takeCells(ctx context.Context, tx *sql.Tx, c cells) error {
	if d.sqlite {
		if err := c.each(ctx, tx, "UPDATE history_hours SET n = n - ?8 WHERE hour = ?1 AND app = ?2 AND module = ?3 AND type = ?4 AND "+
			"route = ?5 AND host = ?6 AND what = ?7", true); err != nil {
			return err
		}
		return c.each(ctx, tx, "DELETE FROM history_hours"+thisCell+" AND n <= 0", false)
	}

	args := c.arrays()
	_, err := tx.ExecContext(ctx, "UPDATE history_hours h SET n = h.n - x.n"+sameCell, args...)
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM history_hours h USING"+strings.TrimPrefix(sameCell, " FROM")+" AND h.n <= 0", args...)
	}

	return err
}

// each runs a statement of SQLite for each cell, with its number as the last argument or without it.
func (c cells) each(ctx context.Context, tx *sql.Tx, text string, number bool) error {
	if len(c) == 0 {
		return nil
	}

	do, err := tx.PrepareContext(ctx, text)
	if err != nil {
		return err
	}

	defer do.Close()

	for _, x := range c.sorted() {
		args := []any{x.hour, x.app, x.module, x.typ, x.route, x.host, x.what}
		if number {
			args = append(args, c[x])
		}

		if _, err := do.ExecContext(ctx, args...); err != nil {
			return err
		}
	}

	return nil
}

// arrays returns the cells as arguments of cellsPostgres.
func (c cells) arrays() []any {
	list := c.sorted()
	hours, what, n := make([]time.Time, len(list)), make([]int16, len(list)), make([]int64, len(list))
	texts := make([][]string, 5)
	for i, x := range list {
		hours[i], what[i], n[i] = time.UnixMicro(x.hour).UTC(), int16(x.what), c[x]
		for column, text := range []string{x.app, x.module, x.typ, x.route, x.host} {
			texts[column] = append(texts[column], text)
		}
	}

	return []any{hours, texts[0], texts[1], texts[2], texts[3], texts[4], what, n}
}
