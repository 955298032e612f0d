package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

const subject = seal.Subject("audience:m17")

// sealedBy makes the i-th entry a sealed one.
func sealedBy(t *testing.T, d *seal.DataKey, i int) store.Entry {
	t.Helper()
	return ended(i, func(e *store.Entry) {
		text, err := d.Seal(seal.Content, "ns", e.Key, e.Content.Secret(false))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := d.Seal(seal.Answer, "ns", e.Key, []byte("thanks"))
		if err != nil {
			t.Fatal(err)
		}
		e.Content.Seal(text.String(), "c2FtZQ", false)
		e.Attempts[0].Response, e.Attempts[0].Sealed = "", answer.String()
	})
}

// source is a Redis with data keys.
type source struct {
	values map[string]string
	asked  int
	err    error
	during func()
}

func (s *source) keep(d *DB) *DB {
	d.KeepKeys(func(_ context.Context, _ int, ids []string) (map[string]string, error) {
		s.asked += len(ids)
		found := map[string]string{}
		for _, id := range ids {
			if s.values[id] != "" {
				found[id] = s.values[id]
			}
		}
		if s.during != nil {
			s.during()
		}
		return found, s.err
	})
	return d
}

func newSource(keys ...*seal.DataKey) *source {
	s := &source{values: map[string]string{}}
	for _, d := range keys {
		s.values[d.ID] = string(subject) + " w1:k:wrapped" + d.ID
	}
	return s
}

func keyIn(t *testing.T, d *DB, id string) string {
	t.Helper()
	value, err := d.SealKey(t.Context(), id)
	if err != nil && vault.ForgottenAt(err).IsZero() {
		t.Fatal(err)
	}
	if err != nil {
		return "forgotten"
	}
	return value
}

func TestSealedRowRoundTripsEntry(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		key := seal.NewDataKey()
		for i, x := range []struct {
			bodies       Bodies
			text, digest bool
		}{{BodiesKeep, true, true}, {BodiesHash, false, true}, {BodiesDrop, false, false}} {
			e := sealedBy(t, key, i+1)
			without := sealedBy(t, key, i+11) // without attempts, the members stand alone
			without.Attempts, without.AttemptsMade, without.URLSealed = nil, 0, true
			d := open(t, Options{URL: url})
			write(t, d, rowsOf(x.bodies, e, without))
			for _, want := range []store.Entry{e, without} {
				r, ok, err := d.Latest(t.Context(), want.Key)
				if err != nil || !ok || len(r.Damaged) > 0 {
					t.Fatal(r.Damaged, ok, err)
				}
				if !r.WasSealed() || r.BodyKept != x.text || (r.Sealed == want.Sealed) != x.text || (r.Same == want.Same) != x.digest ||
					len(r.Body) > 0 || r.BodyHash != nil || r.URLSealed != want.URLSealed {
					t.Errorf("%s: %+v", x.bodies, r)
				}
				if !slices.Equal(r.Attempts, want.Attempts) {
					t.Errorf("%s: %+v, want %+v", x.bodies, r.Attempts, want.Attempts)
				}
			}
		}
	})
}

// A sealed text is base64, which has any short word.
func TestSearchForTextLeavesSealedRowsOut(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, seal.NewDataKey(), 1), ended(3, nil)))
		for text, want := range map[string]int{"s1c": 0, "s1a": 0, "thanks": 1, "order": 1} {
			if got := all(t, d, Query{Text: text, Since: noon.Add(-time.Hour), Limit: 10}); len(got) != want {
				t.Errorf("%s: %v", text, got)
			}
		}
	})
}

func TestRejectedSealedRowIsNotKept(t *testing.T) {
	t.Parallel()
	b := bareOf(rowsOf(BodiesKeep, sealedBy(t, seal.NewDataKey(), 1))[0])
	if b.BodyKept || b.Sealed != "" || b.Same != "" || !b.WasSealed() || len(b.DataKeys()) > 0 {
		t.Errorf("%+v", b)
	}
}

func TestKeysOfSealedRowsAreStoredOnce(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		one, two, lost := seal.NewDataKey(), seal.NewDataKey(), seal.NewDataKey()
		s := newSource(one, two)
		d := s.keep(open(t, Options{URL: url}))
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, one, 1), sealedBy(t, two, 2), sealedBy(t, lost, 3), ended(4, nil)))
		write(t, d, rowsOf(BodiesHash, sealedBy(t, one, 5), sealedBy(t, two, 6)))
		if got := []string{keyIn(t, d, one.ID), keyIn(t, d, two.ID), keyIn(t, d, lost.ID)}; !reflect.DeepEqual(got,
			[]string{s.values[one.ID], s.values[two.ID], ""}) || s.asked != 3 {
			t.Errorf("%q, %d asked", got, s.asked)
		}
		if n := len(all(t, d, Query{Limit: 10})); n != 6 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestFailureOfRedisKeepsSealedEntries(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	e := sealedBy(t, seal.NewDataKey(), 1)
	entry := fmt.Sprintf(`d %d app1 - %s {"due":%d,"made":%d%s`, noon.UnixMicro(), e.Key, e.Due.UnixMilli(), e.Made, e.AppendTail(nil))
	if err := q.c.RPush(t.Context(), q.space.Ended(0), entry).Err(); err != nil {
		t.Fatal(err)
	}
	s, seen := &source{err: errors.New("broken")}, &counter{}
	d := s.keep(open(t, Options{URL: "sqlite://" + t.TempDir() + "/history.db"}))
	ship := NewShipper(ShipperOptions{Queue: q, Writer: d, Shards: 1, Observer: seen, Logger: zap.NewNop()})
	if err := ship.Ship(t.Context(), 0); !errors.Is(err, ErrNoKeys) || errors.Is(err, ErrUnavailable) || seen.of(FailedRedis) != 1 ||
		seen.of(FailedDatabase) != 0 || q.left(t) != 1 {
		t.Errorf("%v, %v, %d left", err, seen.failed, q.left(t))
	}
	s.err = nil
	if err := ship.Ship(t.Context(), 0); err != nil || q.left(t) != 0 {
		t.Errorf("%v, %d left", err, q.left(t))
	}
}

func TestForgottenKeysAreDeletedAndNotStoredAgain(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		one, two, other := seal.NewDataKey(), seal.NewDataKey(), seal.NewDataKey()
		s := newSource(one, two)
		s.values[other.ID] = "audience:m170 w1:k:other"
		d := s.keep(open(t, Options{URL: url}))
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, one, 1), sealedBy(t, other, 2)))
		for i, want := range []int64{1, 0} {
			if n, err := d.ForgetKeys(t.Context(), subject, vault.Forgotten{At: noon}); err != nil || n != want {
				t.Fatalf("%d: %d deleted, %v", i, n, err)
			}
		}
		if _, err := d.SealKey(t.Context(), one.ID); !vault.ForgottenAt(err).Equal(noon.Truncate(time.Millisecond)) {
			t.Errorf("the deleted key: %v", err)
		}
		// A Redis that was restored from a backup has the keys again.
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, one, 3), sealedBy(t, two, 4)))
		if got := []string{keyIn(t, d, one.ID), keyIn(t, d, two.ID), keyIn(t, d, other.ID)}; !reflect.DeepEqual(got,
			[]string{"forgotten", "forgotten", "audience:m170 w1:k:other"}) {
			t.Errorf("%q", got)
		}
		for _, want := range []bool{true, false} {
			if marked, err := d.LiftSubject(t.Context(), subject); err != nil || marked != want {
				t.Fatal(marked, err)
			}
		}
		next := seal.NewDataKey()
		s.values[next.ID] = string(subject) + " w1:k:next"
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, one, 5), sealedBy(t, two, 6), sealedBy(t, next, 7)))
		if got := []string{keyIn(t, d, one.ID), keyIn(t, d, two.ID), keyIn(t, d, next.ID)}; !reflect.DeepEqual(got,
			[]string{"forgotten", "forgotten", s.values[next.ID]}) {
			t.Errorf("after the lift: %q", got)
		}
	})
}

// A writer that has read the key before it was forgotten stores it before ForgetKeys deletes it, or not at all.
func TestForgetDuringWriteLeavesNoKey(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		key := seal.NewDataKey()
		s := newSource(key)
		d := s.keep(open(t, Options{URL: url}))
		forgotten := make(chan error, 1)
		s.during = func() {
			other := open(t, Options{URL: url})
			go func() {
				_, err := other.ForgetKeys(t.Context(), subject, vault.Forgotten{At: noon})
				forgotten <- err
			}()
			testkit.Until(t, "the forget waits", func() bool { return waitsForLock(t, url, "LOCK TABLE history IN SHARE ROW%") })
		}
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, key, 1)))
		if err := <-forgotten; err != nil {
			t.Fatal(err)
		}
		if got := keyIn(t, d, key.ID); got != "forgotten" {
			t.Errorf("the key: %s", got)
		}
	})
}

// waitsForLock reports whether a statement of the database waits for a lock. SQLite does not show it.
func waitsForLock(t *testing.T, url, like string) bool {
	t.Helper()
	if strings.HasPrefix(url, "sqlite") {
		return true
	}
	var n int
	d := open(t, Options{URL: url})
	if err := d.db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
		AND query LIKE $1`, like).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func TestForgottenKeyIsNotInTheFileOfSQLite(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/history.db"
	key := seal.NewDataKey()
	s := newSource(key)
	d := s.keep(open(t, Options{URL: "sqlite://" + file}))
	write(t, d, rowsOf(BodiesKeep, sealedBy(t, key, 1)))
	has := func() bool {
		text := ""
		for _, name := range []string{file, file + "-wal"} {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text += string(b)
		}
		return strings.Contains(text, "w1:k:wrapped"+key.ID)
	}
	if !has() {
		t.Error("the key is not in the file")
	}
	if _, err := d.ForgetKeys(t.Context(), subject, vault.Forgotten{At: noon}); err != nil {
		t.Fatal(err)
	}
	if has() {
		t.Error("the forgotten key is in the file")
	}
}

// hashed and dropped bodies of sealed rows must not be replayed as empty ones.
func TestChooseTellsWhichSealedRowsAreKept(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		key := seal.NewDataKey()
		for i, bodies := range []Bodies{BodiesKeep, BodiesHash, BodiesDrop} {
			write(t, d, rowsOf(bodies, sealedBy(t, key, 2*i)))
		}
		got := map[string]string{}
		r := &Replay{Prefix: "app1", ReplayAbout: ReplayAbout{Since: noon.Add(-time.Hour), Until: noon.Add(time.Hour),
			Outcomes: []notice.Ending{notice.EndDelivered}}}
		if err := d.Choose(t.Context(), r, func(row *Row, _ Choice) error {
			got[row.Key[len("app1:orders:paid:"):]] = fmt.Sprint(row.BodyKept, row.BodyHash != nil)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"0": "true true", "2": "false true", "4": "false false"}; !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestSealKeysAreReplacedUnlessTheyHaveChanged(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		one, two := seal.NewDataKey(), seal.NewDataKey()
		s := newSource(one, two)
		d := s.keep(open(t, Options{URL: url}))
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, one, 1), sealedBy(t, two, 2)))
		var all []vault.Replacement
		for after := ""; ; {
			page, err := d.SealKeyPage(t.Context(), after, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			after = page[0].Name
			all = append(all, vault.Replacement{Field: page[0], New: page[0].Value + "2"})
		}
		if len(all) != 2 {
			t.Fatalf("%+v", all)
		}
		changed := all[0].Name
		all[0].Value = "another"
		if n, err := d.ReplaceSealKeys(t.Context(), all); err != nil || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		for _, key := range []*seal.DataKey{one, two} {
			want := s.values[key.ID] + "2"
			if key.ID == changed {
				want = s.values[key.ID]
			}
			if got := keyIn(t, d, key.ID); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

// The marks are read in pages, and their state changes with each forget and lift.
func TestMarksOfForgottenSubjects(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		key, extra := seal.NewDataKey(), seal.NewDataKey()
		d := newSource(key).keep(open(t, Options{URL: url}))
		states := map[string]bool{}
		state := func(what string, changed bool) {
			t.Helper()
			s, err := d.MarksState(t.Context())
			if err != nil || states[s] == changed {
				t.Errorf("%s: state %q, %v; changed: want %t", what, s, err, changed)
			}
			states[s] = true
		}
		state("empty", true)
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, key, 1)))
		state("a key without a mark", false)
		forget := func(of seal.Subject, at time.Time, ids ...string) {
			t.Helper()
			if _, err := d.ForgetKeys(t.Context(), of, vault.Forgotten{At: at, IDs: ids}); err != nil {
				t.Fatal(err)
			}
		}
		forget(subject, noon, key.ID, extra.ID) // Redis had a key that no entry has
		state("forgotten", true)
		if _, err := d.LiftSubject(t.Context(), subject); err != nil {
			t.Fatal(err)
		}
		state("lifted", true)
		forget(subject, noon.Add(time.Hour), key.ID, extra.ID)
		state("forgotten again", true)

		var names []string
		for after := ""; ; {
			page, err := d.MarkPage(t.Context(), after, 1)
			if err != nil || len(page) > 1 {
				t.Fatal(page, err)
			}
			if len(page) == 0 {
				break
			}
			names, after = append(names, page[0].Name), page[0].Name
		}
		want := []string{vault.Mark(string(subject)), vault.Mark(key.ID), vault.Mark(extra.ID)}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("marks %q, want %q", names, want)
		}
	})
}

// A history that was restored from before a lift has the mark of the earlier forget. Redis takes a mark from before its lift for ended.
func TestMarkHasTheTimeOfTheLaterForget(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		for _, at := range []time.Time{noon, noon.Add(time.Hour), noon.Add(time.Minute)} {
			if _, err := d.ForgetKeys(t.Context(), subject, vault.Forgotten{At: at}); err != nil {
				t.Fatal(err)
			}
		}
		page, err := d.MarkPage(t.Context(), "", 10)
		if err != nil || len(page) != 1 || !vault.MarkedAt(page[0].Value).Equal(noon.Add(time.Hour).Truncate(time.Millisecond)) {
			t.Errorf("%v, %v", page, err)
		}
	})
}
