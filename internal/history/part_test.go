package history

import (
	"errors"
	"strings"
	"testing"

	"notifier/internal/store"
)

func TestSearchForPartOfKey(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		keyed := func(i int, key string) store.Entry { return ended(i, func(e *store.Entry) { e.Key = key }) }
		write(t, d, rowsOf(BodiesKeep, keyed(1, "app1:orders:paid:20261120"), keyed(2, "app1:orders:paid:20261121"),
			keyed(3, "app1:orders:rest:20261120"), keyed(4, "app1:bills:paid:_x")))
		for part, want := range map[string]string{
			"app1:orders:paid:2026":     "20261121 20261120",
			"app1:orders:paid:20261120": "20261120",
			"app1:orders:paid:":         "20261121 20261120",
			"app1:orders:":              "20261120 20261121 20261120",
			"app1:or":                   "20261120 20261121 20261120",
			"app1:":                     "_x 20261120 20261121 20261120",
			"1120":                      "20261120 20261120",
			"_x":                        "_x",
			"app1:orders:paid:x":        "",
			"%":                         "",
		} {
			page, err := d.Find(t.Context(), Query{Part: part, Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range page.Rows {
				got = append(got, r.Key[strings.LastIndexByte(r.Key, ':')+1:])
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: found %v, want %s", part, got, want)
			}
		}
	})
}

func TestUnindexedSearches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q    Query
		want bool
	}{
		{Query{Part: "4711"}, true}, {Query{Part: "app1:orders"}, true}, {Query{Part: "app1:orders:paid"}, true}, {Query{Text: "x",
			Key: "a:b:c:d"}, true},
		{Query{Part: "app1", ID: "msg_1"}, false}, {Query{Part: "app1:orders:paid:"}, false}, {Query{Part: "app1:orders:paid:4"}, false},
		{Query{ID: "msg_1"}, false}, {Query{Host: "x"}, false},
	} {
		if c.q.Unindexed() != c.want {
			t.Errorf("%+v: want %v", c.q, c.want)
		}
	}
	d := open(t, Options{URL: "sqlite://" + t.TempDir() + "/h.db"})
	for range mostTextsOfClient {
		if !d.texts.begin("a") {
			t.Fatal("none may run")
		}
	}
	if _, err := d.Find(t.Context(), Query{Client: "a", Part: "4711", Limit: 1}); !errors.Is(err, ErrBusy) {
		t.Errorf("a third search of a client: %v", err)
	}
}

// An index by webhook-id is built for the partitions of an older schema without holding up writes.
func TestSearchForWebhookIDUsesItsIndex(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		rows := rowsOf(BodiesKeep, ended(1, nil), ended(2, nil), ended(3, func(e *store.Entry) { e.At = noon.AddDate(0, 0, 1) }))
		write(t, d, rows[:2])
		if !d.sqlite { // as version 6 left it
			for _, text := range []string{"DROP INDEX history_id", "ALTER TABLE history_owner DROP COLUMN replaced_by",
				"DROP TABLE history_hours, history_counted, history_seals",
				"DELETE FROM history_schema WHERE version_id >= 7"} {
				if _, err := d.db.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
			d = open(t, Options{URL: url})
		}
		id := rows[1].ID()
		find := func() {
			t.Helper()
			page, err := d.Find(t.Context(), Query{ID: id, Limit: 10})
			if err != nil || len(page.Rows) != 1 || page.Rows[0].Key != rows[1].Key {
				t.Fatalf("%+v, %v", page.Rows, err)
			}
		}
		find() // without the index
		write(t, d, rows[2:])
		want := 1
		if d.sqlite {
			want = 0
		}
		for range 2 {
			if built, err := d.BuildIndexes(t.Context()); err != nil || built != want {
				t.Fatalf("built %d, want %d: %v", built, want, err)
			}
			want = 0
		}
		find()
		if d.sqlite {
			return
		}
		var valid bool
		if err := d.db.QueryRow("SELECT indisvalid FROM pg_index WHERE indexrelid = 'history_id'::regclass").Scan(&valid); err != nil || !valid {
			t.Errorf("the index of all partitions is valid: %v, %v", valid, err)
		}
		c, err := d.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := c.ExecContext(t.Context(), "SELECT pg_advisory_lock($1)", int64(indexLock)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.BuildIndexes(t.Context()); !errors.Is(err, errBuilding) {
			t.Errorf("while another instance builds: %v", err)
		}
	})
}
