package history

import (
	"slices"
	"strings"
	"testing"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// One row that another program had changed made whole listings fail.
func TestDamagedRowDoesNotHideOthers(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		write(t, d, rowsOf(BodiesKeep, ended(1, nil), ended(2, nil), ended(3, nil), ended(4, nil)))
		changes := map[string]string{"1": "retry = 'soon'", "2": "headers = '{'", "3": "attempts = 'none', outcome = 'lost'"}
		want := map[string][]string{"1": {"retry"}, "2": {"headers"}, "3": {"outcome", "attempts"}, "4": nil}
		if d.sqlite { // columns of SQLite hold values of any type
			changes["4"], want["4"] = "ended = 'noon', body_size = 'large', due = NULL", []string{"ended", "due", "body_size"}
			if _, err := d.db.Exec("PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'due           INTEGER NOT NULL', " +
				"'due           INTEGER') WHERE name = 'history'"); err != nil {
				t.Fatal(err)
			}
			_ = d.Close()
			d = open(t, Options{URL: url})
		}
		for name, change := range changes {
			if _, err := d.db.Exec("UPDATE history SET " + change + " WHERE name = '" + name + "'"); err != nil {
				t.Fatal(err)
			}
		}

		got := map[string][]string{}
		for q := (Query{Limit: 1}); ; {
			p, err := d.Find(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range p.Rows {
				got[r.Key[len("app1:orders:paid:"):]] = r.Damaged
			}
			if q.Cursor = p.Cursor; q.Cursor == "" {
				break
			}
		}
		for name, columns := range want {
			if is, ok := got[name]; !ok || !slices.Equal(is, columns) {
				t.Errorf("row %s: damaged %v, found %v; want %v", name, is, ok, columns)
			}
		}

		// A replay detects the damage, so it does not send the notice without its headers.
		err := d.Choose(t.Context(), askedFor(nil), func(row *Row, c Choice) error {
			if damaged := len(row.Damaged) > 0; damaged != (c.Key.ID == "2") {
				t.Errorf("chosen %s: damaged %v", c.Key, row.Damaged)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestDamagedReplayDoesNotHideOthers(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		write(t, d, rowsOf(BodiesKeep, ended(1, nil)))
		for range 2 {
			if _, err := add(t, d, askedFor(nil)); err != nil {
				t.Fatal(err)
			}
		}
		list, err := d.Replays(t.Context(), "", 10)
		if err != nil || len(list) != 2 {
			t.Fatal(len(list), err)
		}
		if _, err := d.db.Exec(d.marks("UPDATE history_replays SET about = '{' WHERE id = ?"), list[0].ID); err != nil {
			t.Fatal(err)
		}
		list, err = d.Replays(t.Context(), "", 10)
		if err != nil || len(list) != 2 || !strings.Contains(list[0].Reason+list[1].Reason, "cannot be read") {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// A search for a reason alone read every row of every partition.
func TestSearchForReasonUsesItsIndex(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		dead := func(e *store.Entry) { e.Outcome, e.Reason = notice.EndDead, notice.ReasonTimeout }
		write(t, d, rowsOf(BodiesKeep, ended(1, nil), ended(2, dead), ended(3, nil)))
		q := Query{Reason: notice.ReasonTimeout, Limit: 10}
		if got := strings.Join(all(t, d, q), " "); got != "2/1" {
			t.Errorf("found %s", got)
		}

		tx, err := d.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		explain, index := "EXPLAIN QUERY PLAN ", "history_reason"
		if !d.sqlite {
			explain, index = "EXPLAIN ", "_reason_ended_idx"
			if _, err := tx.Exec("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"); err != nil { // there are three rows
				t.Fatal(err)
			}
		}
		text, args, err := d.question(q)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := tx.Query(explain+text, args...)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		plan := ""
		for rows.Next() {
			var a, b, c any
			var line string
			if d.sqlite {
				err = rows.Scan(&a, &b, &c, &line)
			} else {
				err = rows.Scan(&line)
			}
			if err != nil {
				t.Fatal(err)
			}
			plan += line + "\n"
		}
		if err := rows.Err(); err != nil || !strings.Contains(plan, index) {
			t.Errorf("the plan names no index %s (%v):\n%s", index, err, plan)
		}
	})
}
