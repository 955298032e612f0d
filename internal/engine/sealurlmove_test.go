package engine

import (
	"testing"
	"time"

	"notifier/internal/move"
	"notifier/internal/testkit"
)

const movedURLs = 6

// fillURLs schedules notices with sealed queries.
func fillURLs(t *testing.T, w *world, s *shop) {
	t.Helper()
	for i := range movedURLs {
		w.scheduleSealed(t, s.paid(i, time.Hour))
	}
}

// checkURLs fails unless moved notices have their queries sealed, are recognised, and are sent with the query.
func checkURLs(t *testing.T, w *world, s *shop) {
	t.Helper()
	testkit.CheckSecrets(t, []string{card}, everything(t, w)...)
	for i := range movedURLs {
		w.repeats(t, s.paid(i, time.Hour), false)
		if f := w.fires(t, i); !f.URLSealed || f.URL != s.URL+"/paid" || f.AttemptsMade != 1 {
			t.Errorf("%+v", f.Notice)
		}
		s.check(t, paid)
	}
}

func TestReshardOfSealedQueries(t *testing.T) {
	t.Parallel()
	s, srv := newShop(t), testkit.SharedRedis(t)
	w := startURL(t, srv, nil)
	fillURLs(t, w, s)
	for _, to := range []int{3, 1} {
		done, err := move.Reshard(t.Context(), move.Options{Conn: w.o.Conn, Namespace: srv.Namespace(), To: to})
		if err != nil || done.Held > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	checkURLs(t, w, s)
}

func TestMigrateOfSealedQueries(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	a, b := startURL(t, testkit.StartRedis(t), nil), startURL(t, testkit.StartRedis(t), nil)
	fillURLs(t, a, s)
	way := move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"}, Namespace: a.srv.Namespace(),
		MaxSkew: 50 * time.Millisecond, Wait: 20 * time.Second}
	if done, err := move.Migrate(t.Context(), way); err != nil || !done.Open || done.MissingN > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	checkURLs(t, b, s)
	if _, err := a.Find(t.Context(), key(0)); err == nil {
		t.Error("the old side has the notice still")
	}
}
