package history

import (
	"context"
	"fmt"
	"strings"
	"time"

	"notifier/internal/keys"
)

// CountTime is the time limit of Count.
const CountTime = time.Second

// Count returns the number of entries that a query selects, at most the given number plus one. exact is false if there
// are more, or if the database does not answer within CountTime; n is then 0 or a lower bound. A query for text is
// not counted.
func (d *DB) Count(ctx context.Context, q Query, most int) (n int, exact bool, err error) {
	if q.Unindexed() {
		return 0, false, nil
	}
	if err := d.Begin(ctx); err != nil {
		return 0, false, err
	}

	c := &conditions{d: d}
	c.restrict(q)
	limited, cancel := context.WithTimeout(ctx, CountTime)
	defer cancel()

	text := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM history%s LIMIT %d) counted", c.where(), most+1)
	err = d.searches.QueryRowContext(limited, text, c.args...).Scan(&n)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return 0, false, nil
	}

	return min(n, most), err == nil && n <= most, d.wrap("count", err)
}

// Types returns the values of app:module:type under a prefix that have entries, at most the given number. all is false
// if there are more. Each takes one lookup in the index of keys.
func (d *DB) Types(ctx context.Context, prefix string, most int) (list []string, all bool, err error) {
	if err := d.Begin(ctx); err != nil {
		return nil, false, err
	}

	limited, cancel := context.WithTimeout(ctx, CountTime)
	defer cancel()

	for last := (*keys.Key)(nil); len(list) < most; {
		c := &conditions{d: d}
		c.restrict(Query{Prefix: prefix})
		if last != nil {
			c.add("(app, module, type) > ("+at+", "+at+", "+at+")", last.App, last.Module, last.Type)
		}

		var k keys.Key
		rows, err := d.lookups.QueryContext(limited, "SELECT app, module, type FROM history"+c.where()+
			" ORDER BY app, module, type LIMIT 1", c.args...)
		if err != nil {
			return list, false, d.wrap("types", err)
		}

		found := rows.Next()
		if found {
			err = rows.Scan(&k.App, &k.Module, &k.Type)
		}

		if err2 := rows.Close(); err == nil {
			err = err2
		}

		if err == nil {
			err = rows.Err()
		}

		if err != nil {
			return list, false, d.wrap("types", err)
		}
		if !found {
			return list, true, nil
		}

		list, last = append(list, k.App+":"+k.Module+":"+k.Type), &k
	}

	return list, false, nil
}

// Name identifies an entry.
type Name struct {
	ID     string
	Number int
}

// Has returns which of some entries the database has.
func (d *DB) Has(ctx context.Context, names []Name) (map[Name]bool, error) {
	out := map[Name]bool{}
	if len(names) == 0 {
		return out, nil
	}
	if err := d.Begin(ctx); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	marks, args := make([]string, len(names)), make([]any, len(names))
	for i, n := range names {
		marks[i], args[i] = at, n.ID
	}

	c := &conditions{d: d}
	c.add("id IN ("+strings.Join(marks, ", ")+")", args...)
	rows, err := d.lookups.QueryContext(ctx, "SELECT id, ending FROM history"+c.where(), c.args...)
	if err != nil {
		return nil, d.wrap("has", err)
	}

	defer rows.Close()

	for rows.Next() {
		var n Name
		if err := rows.Scan(&n.ID, &n.Number); err != nil {
			return nil, d.wrap("has", err)
		}

		out[n] = true
	}

	return out, d.wrap("has", rows.Err())
}
