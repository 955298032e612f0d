package history

import (
	"strconv"
	"testing"
	"time"

	"notifier/internal/seal"
	"notifier/internal/vault"
)

// marksAt are the marks of the test's subject and some of its data keys.
func marksAt(at time.Time, keys ...*seal.DataKey) []vault.Field {
	ms := strconv.FormatInt(at.UnixMilli(), 10)
	list := []vault.Field{{Name: vault.Mark(string(subject)), Value: ms}}
	for _, key := range keys {
		list = append(list, vault.Field{Name: vault.Mark(key.ID), Value: ms + " " + string(subject)})
	}
	return list
}

func takes(t *testing.T, d *DB, list []vault.Field, dryRun bool, want int) {
	t.Helper()
	if n, err := d.TakeMarks(t.Context(), list, dryRun); err != nil || n != want {
		t.Fatalf("forgot %d subjects, %v; want %d", n, err, want)
	}
}

// A history that was restored from before a forget has the keys, also one that Redis has deleted as unused.
func TestRestoredHistoryTakesTheMarksOfRedis(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		key, unused := seal.NewDataKey(), seal.NewDataKey()
		s := newSource(key, unused)
		d := s.keep(open(t, Options{URL: url}))
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, key, 1), sealedBy(t, unused, 2)))
		takes(t, d, marksAt(noon, key), true, 1)
		if got := keyIn(t, d, key.ID); got != s.values[key.ID] {
			t.Fatalf("a dry run leaves %q", got)
		}
		takes(t, d, marksAt(noon, key), false, 1)
		takes(t, d, marksAt(noon, key), false, 0)
		for _, id := range []string{key.ID, unused.ID} {
			if got := keyIn(t, d, id); got != "forgotten" {
				t.Errorf("%s: %q", id, got)
			}
		}
	})
}

// A Redis that was restored from before a lift has the mark of the subject, whose newer keys stay in the history.
func TestMarksOfBeforeALiftLeaveNewerKeys(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		old, other, young := seal.NewDataKey(), seal.NewDataKey(), seal.NewDataKey()
		s := newSource(old, other, young)
		d := s.keep(open(t, Options{URL: url, Retention: 48 * time.Hour}))
		write(t, d, rowsOf(BodiesKeep, sealedBy(t, old, 1)))
		at := noon
		stay := func(what string, forgets int, list []vault.Field) {
			t.Helper()
			write(t, d, rowsOf(BodiesKeep, sealedOn(t, young, 2, 0), sealedOn(t, other, 3, 0)))
			takes(t, d, list, false, forgets)
			if got := keyIn(t, d, young.ID); got != s.values[young.ID] {
				t.Fatalf("%s: the newer key is %q", what, got)
			}
		}
		lift := func() {
			t.Helper()
			if marked, err := d.LiftSubject(t.Context(), subject); err != nil || !marked {
				t.Fatal(marked, err)
			}
		}
		if _, err := d.ForgetKeys(t.Context(), subject, vault.Forgotten{At: at}); err != nil {
			t.Fatal(err)
		}
		lift()
		if _, err := d.Expire(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		stay("the history has the time of the lift", 0, marksAt(at))
		stay("and Redis a key that it lacks", 1, marksAt(at, other))
		if got := keyIn(t, d, other.ID); got != "forgotten" {
			t.Errorf("the other key is %q", got)
		}
		if _, err := d.db.ExecContext(t.Context(), d.marks("DELETE FROM history_seals WHERE name = ?"), vault.Lift(subject)); err != nil {
			t.Fatal(err)
		}
		stay("an earlier version has lifted it", 0, marksAt(at, old))

		takes(t, d, marksAt(at.Add(time.Hour)), false, 1)
		if got := keyIn(t, d, young.ID); got != "forgotten" {
			t.Errorf("after the next forget: %q", got)
		}
	})
}
