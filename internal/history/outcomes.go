package history

import (
	"context"
	"slices"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// Ref names a notice by its key and its webhook-id.
type Ref struct{ Key, ID string }

// MostOutcomes is how many notices Outcomes takes at once.
const MostOutcomes = 200

// clockSlack is how far Redis's clock may have been set back between the creation and the
// end of a notice.
const clockSlack = time.Hour

// Outcomes returns all entries of some notices, without their bodies, in the order of their numbers.
func (d *DB) Outcomes(ctx context.Context, list []*notice.Notice) (map[Ref][]Row, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if err := d.Begin(ctx); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	found, err := d.outcomes(ctx, list)
	return found, d.wrap("outcomes", err)
}

func (d *DB) outcomes(ctx context.Context, list []*notice.Notice) (map[Ref][]Row, error) {
	args := make([]any, 0, 5*len(list)+1)
	since := list[0].Made.Time()
	for _, n := range list {
		k, err := keys.Parse(n.Key)
		if err != nil {
			k = keys.Key{ID: n.Key}
		}

		args = append(args, k.App, k.Module, k.Type, k.ID, n.ID())
		if made := n.Made.Time(); made.Before(since) {
			since = made
		}
	}

	const one = "(?, ?, ?, ?, ?)"
	text := "WITH k (app, module, type, name, id) AS (VALUES " + one + strings.Repeat(", "+one, len(list)-1) + ") SELECT h." +
		strings.Join(withoutBody(), ", h.") +
		" FROM k CROSS JOIN history h WHERE h.app = k.app AND h.module = k.module AND h.type = k.type AND h.name = k.name AND h.id = k.id AND " +
		"h.ended >= ?"
	rows, err := d.db.QueryContext(ctx, d.marks(text), append(args, d.time(since.Add(-clockSlack)))...)
	if err != nil {
		return nil, err
	}

	defer rows.Close()

	found := map[Ref][]Row{}

	for rows.Next() {
		f := newRowReader(columns)
		if err := rows.Scan(f.targets()[:len(withoutBody())]...); err != nil {
			return nil, err
		}

		r := readRow(f)
		at := Ref{r.Key, r.ID()}
		found[at] = append(found[at], r)
	}

	for _, some := range found {
		slices.SortFunc(some, func(a, b Row) int { return a.Number - b.Number })
	}

	return found, rows.Err()
}

// withoutBody lists all columns except the last two, which hold the body.
func withoutBody() []string { return columns[:len(columns)-2] }

// knownOutcome returns the outcome that a notice got after a backup of Redis was made. rows are its entries in the
// history, oldest first. Only those with a Number above endings count, because they are newer than the backup: the last
// delivery, or without one, the last entry if it is a cancellation or replacement. Otherwise ok is false.
func knownOutcome(rows []Row, endings int) (row Row, state notice.State, ok bool) {
	for _, r := range slices.Backward(rows) {
		if r.Number > endings && r.Outcome == notice.EndDelivered {
			return r, notice.Delivered, true
		}
	}

	if n := len(rows); n > 0 && rows[n-1].Number > endings && (rows[n-1].Outcome == notice.EndCancelled ||
		rows[n-1].Outcome == notice.EndReplaced) {
		return rows[n-1], notice.Cancelled, true
	}

	return Row{}, "", false
}
