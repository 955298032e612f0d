package history

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/store"
)

// digests returns how many erasures are recorded.
func (d *DB) digests(t *testing.T) (n int) {
	t.Helper()
	if err := d.db.QueryRow("SELECT count(*) FROM history_erased").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func refuse(t *testing.T, d *DB, until time.Time, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := d.Refuse(t.Context(), Erasure{Key: "app1:orders:paid:" + id}, until); err != nil {
			t.Fatal(err)
		}
	}
}

// The table of erasures only grew, and each write read all of it.
func TestErasuresAreDroppedAfterAllOutboxes(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		refuse(t, d, noon, "1", "2")
		refuse(t, d, noon.Add(24*time.Hour), "3")
		steps := []struct {
			home string
			at   time.Time
			left int
		}{
			{"", time.Time{}, 3}, // no outbox is known
			{"old", noon, 3},     // clocks may have been set back
			{"old", noon.Add(2 * clockSlack), 1},
			{"new", noon.Add(25*time.Hour + clockSlack), 1}, // the other side of a migration holds older entries
			{"old", noon.Add(25*time.Hour + clockSlack), 0},
		}
		for i, s := range steps {
			if s.home != "" {
				if err := d.PassOutbox(t.Context(), s.home, s.at); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.ForgetErasures(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := d.digests(t); n != s.left {
				t.Errorf("step %d: %d records, want %d", i, n, s.left)
			}
		}

		// An old side without entries does not keep records alive.
		late := noon.Add(72 * time.Hour)
		refuse(t, d, late, "4")
		if err := d.PassOutbox(t.Context(), "new", late.Add(2*clockSlack)); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{1, 0} {
			if err := d.ForgetErasures(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := d.digests(t); n != want {
				t.Errorf("%d records, want %d", n, want)
			}
			if err := d.LeaveOutbox(t.Context(), "old"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestUnrefuseKeepsErasuresOfOtherOutboxes(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		x := Erasure{Key: "app1:orders:paid:1"}
		for _, c := range []struct {
			other, until time.Time
			left         int
		}{
			{noon, noon, 1}, // the other Redis may hold it
			{noon.Add(2 * clockSlack), noon.Add(-time.Millisecond), 1}, // a later erasure has the record
			{noon.Add(2 * clockSlack), noon.Add(time.Hour), 0},         // no outbox needs it
		} {
			refuse(t, d, noon, "1")
			if err := d.PassOutbox(t.Context(), "other", c.other); err != nil {
				t.Fatal(err)
			}
			if err := d.Unrefuse(t.Context(), x, c.until, "mine"); err != nil {
				t.Fatal(err)
			}
			if n := d.digests(t); n != c.left {
				t.Errorf("%+v: %d records", c, n)
			}
		}
	})
}

func TestWriteLooksUpTheDigestsOfItsBatch(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		var list []store.Entry
		for i := range 2*digestsAtOnce + 10 {
			list = append(list, ended(2*i+1, func(e *store.Entry) { e.Key = fmt.Sprintf("app1:orders:paid:%d", i) }))
		}
		refuse(t, d, noon.AddDate(0, 0, 1), "0", "700", fmt.Sprint(2*digestsAtOnce+9), "other")
		if w := write(t, d, rowsOf(BodiesKeep, list...)); w != (Written{Rows: len(list) - 3, Erased: 3}) {
			t.Errorf("%+v", w)
		}
	})
}
