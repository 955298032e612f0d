package history

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// sealedOn is a sealed entry that ended some days ago.
func sealedOn(t *testing.T, d *seal.DataKey, i, days int) store.Entry {
	t.Helper()
	e := sealedBy(t, d, i)
	e.At = time.Now().AddDate(0, 0, -days)
	return e
}

// writeAfter writes rows that wait for a transaction with a statement on the same data key. The rows have found the key before.
func writeAfter(t *testing.T, d *DB, rows []Row, statement string, args ...any) {
	t.Helper()
	tx, err := d.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := d.Write(t.Context(), rows)
		written <- err
	}()
	testkit.Until(t, "the writer waits", func() bool { return waitsForLock(t, d.o.URL, "UPDATE history_seals%") })
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

func TestKeysOfExpiredEntriesAreDeleted(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		old, again, young, gone := seal.NewDataKey(), seal.NewDataKey(), seal.NewDataKey(), seal.NewDataKey()
		s := newSource(old, again, young)
		s.values[gone.ID] = "audience:left w1:k:gone"
		d := s.keep(open(t, Options{URL: url, Retention: 48 * time.Hour}))
		write(t, d, rowsOf(BodiesKeep, sealedOn(t, old, 1, 9), sealedOn(t, gone, 2, 9)))
		write(t, d, rowsOf(BodiesKeep, sealedOn(t, again, 3, 9)))
		write(t, d, rowsOf(BodiesKeep, sealedOn(t, young, 4, 1), sealedOn(t, again, 5, 0)))
		if _, err := d.ForgetKeys(t.Context(), seal.AudienceSubject("left"), vault.Forgotten{At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		asked := s.asked
		if _, err := d.Expire(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]string{old.ID: "", again.ID: s.values[again.ID], young.ID: s.values[young.ID], gone.ID: "forgotten"} {
			if got := keyIn(t, d, id); got != want {
				t.Errorf("%s: %q, want %q", id, got, want)
			}
		}

		write(t, d, rowsOf(BodiesKeep, sealedOn(t, old, 6, 0), sealedOn(t, young, 7, 0)))
		if got := keyIn(t, d, old.ID); got != s.values[old.ID] || s.asked != asked+1 {
			t.Errorf("a deleted key that is needed again: %q, Redis was asked for %d", got, s.asked-asked)
		}
		keeps := open(t, Options{URL: url})
		if _, err := keeps.Expire(t.Context(), time.Now()); err != nil || keyIn(t, d, young.ID) == "" {
			t.Error("without a retention:", err)
		}
	})
}

// A writer has found the key, and Expire deletes it before the writer has noted that it needs the key.
func TestKeyThatIsDeletedDuringAWriteIsStoredAgain(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "sqlite") {
			return // has one writer at a time
		}
		key := seal.NewDataKey()
		s := newSource(key)
		d := s.keep(open(t, Options{URL: url}))
		write(t, d, rowsOf(BodiesKeep, sealedOn(t, key, 1, 9)))
		writeAfter(t, d, rowsOf(BodiesKeep, sealedOn(t, key, 2, 0)), "DELETE FROM history_seals WHERE name = $1", key.ID)
		if got := keyIn(t, d, key.ID); got != s.values[key.ID] {
			t.Errorf("the key: %q", got)
		}
	})
}

// Two instances write entries of different days at once, and the later day counts.
func TestKeyStaysForTheLaterOfTwoWriters(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "sqlite") {
			return // has one writer at a time
		}
		key := seal.NewDataKey()
		s := newSource(key)
		d := s.keep(open(t, Options{URL: url, Retention: 48 * time.Hour}))
		other := newSource(key).keep(open(t, Options{URL: url}))
		s.during = func() { write(t, other, rowsOf(BodiesKeep, sealedOn(t, key, 1, 0))) }
		write(t, d, rowsOf(BodiesKeep, sealedOn(t, key, 2, 9)))
		stays := func() {
			t.Helper()
			if _, err := d.Expire(t.Context(), time.Now()); err != nil || keyIn(t, d, key.ID) == "" {
				t.Fatal("the key of today's entry was deleted:", err)
			}
		}
		stays()

		// Both have found the key.
		if _, err := d.db.ExecContext(t.Context(), "UPDATE history_seals SET used = 1 WHERE name = $1", key.ID); err != nil {
			t.Fatal(err)
		}
		writeAfter(t, other, rowsOf(BodiesKeep, sealedOn(t, key, 3, 9)), "UPDATE history_seals SET used = $1 WHERE name = $2",
			dayNumber(time.Now()), key.ID)
		stays()
	})
}
