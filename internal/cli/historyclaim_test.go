package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// onRedis returns a command line with the environment of serve: a Redis on which an instance has started, and a
// history in SQLite, whose address it returns.
func onRedis(t *testing.T) (d *testCLI, srv *testkit.Redis, url string) {
	t.Helper()
	srv = testkit.SharedRedis(t)
	s := store.New(store.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Prefixes: []string{"app1"}})
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	url = "sqlite://" + filepath.Join(t.TempDir(), "history.db")
	d = newTestCLI(t)
	d.env = []string{"NOTIFIER_REDIS_URL=" + srv.URL(), "NOTIFIER_NAMESPACE=" + srv.Namespace(), "NOTIFIER_HISTORY_URL=" + url}
	return d, srv, url
}

func TestHistorySettleCommand(t *testing.T) {
	t.Parallel()
	d, srv, url := onRedis(t)
	out, _ := d.run(0, "history", "settle", "--dry-run")
	contains(t, out, "0 notices checked; to settle: 0 as delivered, 0 as cancelled")
	out, _ = d.run(0, "history", "settle", "--json")
	contains(t, out, `"checked": 0`, `"forgotten": 0`)

	forgetIn(t, url, seal.AudienceSubject("m17"))
	out, _ = d.run(0, "history", "settle", "--dry-run")
	contains(t, out, "\n1 subject to forget again")
	out, _ = d.run(0, "history", "settle")
	contains(t, out, "\n1 subject forgotten again")
	out, _ = d.run(0, "history", "settle")
	if strings.Contains(out, "forg") {
		t.Errorf("a second time: %s", out)
	}

	if err := srv.Client().Del(t.Context(), srv.Namespace()+":meta").Err(); err != nil {
		t.Fatal(err)
	}
	_, errs := d.run(1, "history", "settle")
	contains(t, errs, "nothing to settle")
}

// forgetIn records in a history that a subject was forgotten.
func forgetIn(t *testing.T, url string, of seal.Subject) {
	t.Helper()
	db, err := history.Open(history.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ForgetKeys(t.Context(), of, vault.Forgotten{At: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

func TestHistoryClaimCommand(t *testing.T) {
	t.Parallel()
	d, srv, url := onRedis(t)
	db, err := history.Open(history.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.Serve(func(context.Context) (history.Owner, error) { return history.Owner{Namespace: "old", ID: "AAA"}, nil })
	if _, err := db.Write(t.Context(), nil); err != nil {
		t.Fatal(err)
	}

	_, errs := d.run(1, "history", "claim", "--from", "BBB")
	contains(t, errs, `belongs to namespace "old"`, "--from AAA")
	out, _ := d.run(0, "history", "claim", "--from", "AAA")
	contains(t, out, "belongs to namespace "+srv.Namespace())
	out, _ = d.run(0, "history", "claim", "--from", "AAA")
	contains(t, out, "already")
	out, _ = d.run(0, "history", "claim", "--from", "AAA", "--json")
	contains(t, out, `"changed": false`)

	d.run(2, "history", "claim")
	d.env = d.env[:2]
	_, errs = d.run(2, "history", "claim", "--from", "AAA")
	contains(t, errs, "NOTIFIER_HISTORY_URL is not set")
}
