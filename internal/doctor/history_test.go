//go:build !quick

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/internal/config"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
	_ "notifier/worker/pghistory"
	_ "notifier/worker/sqlitehistory"
)

func TestHistoryReportsDatabaseAndBacklog(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	with := func(url string) *config.Config {
		c := *cfg
		c.History = config.History{URL: config.Secret(url), Bodies: "keep", Backlog: 1000}
		return &c
	}
	r := examine(t, cfg, Options{})
	for _, f := range r.Findings {
		if f.Check == "history" {
			t.Errorf("without a history: %+v", f)
		}
	}
	file := "sqlite://" + filepath.Join(t.TempDir(), "history.db")
	examine(t, with(file), Options{}).says(t, "history", Info, "no schema yet")
	examine(t, with(file), Options{}).says(t, "history", Info, "no schema yet") // the doctor created none
	if _, err := os.Stat(strings.TrimPrefix(file, "sqlite://")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the doctor created the file: %v", err) // it would belong to the user who runs the doctor
	}
	database := testkit.PostgresDatabase(t)
	for _, url := range []string{file, database} {
		d, err := history.Open(history.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = d.Close()
		r := examine(t, with(url), Options{})
		r.says(t, "history", OK, "the database answers")
		r.says(t, "history", OK, "waiting for the database: 0 finalized notices")
	}
	examine(t, with("sqlite:///nonexistent/history.db"), Options{}).says(t, "history", Error, "the database refuses writes")
	c := s.Client()
	for ago, want := range map[time.Duration]Severity{time.Minute: Warning, 0: OK} {
		text := fmt.Sprintf(`d %d app1 - app1:a:b:1 {"due":1763740800000,"made":185903985000000}`, time.Now().Add(-ago).UnixMicro())
		if err := c.RPush(t.Context(), "notifier:{0}:ended", text).Err(); err != nil {
			t.Fatal(err)
		}
		message := "waiting for the database: 1 finalized notice"
		if want == Warning {
			message = "the oldest has waited 1m"
		}
		examine(t, with(file), Options{}).says(t, "history", want, message)
		if err := c.Del(t.Context(), "notifier:{0}:ended").Err(); err != nil {
			t.Fatal(err)
		}
	}
	c.HSet(t.Context(), "notifier:meta", "layout", store.Version, "shards", 1, "id", "MINE")
	for _, url := range []string{file, database} {
		for id, want := range map[string]Severity{"MINE": OK, "OTHER": Error} {
			claimFor(t, url, id)
			r := examine(t, with(url), Options{})
			if want == OK && r.Errors > 0 {
				t.Errorf("the owner gets %+v", r.Findings)
			}
			if want == Error {
				r.says(t, "history", Error, "belongs to namespace")
			}
		}
	}
	c.Del(t.Context(), "notifier:meta")
	examine(t, with("postgres://me:hunter22@127.0.0.1:1/x?sslmode=disable"), Options{}).says(t, "history", Error, "does not answer")
	big := with(database)
	big.History.Backlog = 1_000_000
	examine(t, big, Options{}).says(t, "history", Warning, "set NOTIFIER_HISTORY_BACKLOG=")
	for range 501 {
		if err := c.RPush(t.Context(), "notifier:{0}:ended", "x").Err(); err != nil {
			t.Fatal(err)
		}
	}
	examine(t, with(database), Options{}).says(t, "history", Error, "above 1000 the oldest are not recorded")
	// No history here; other instances wrote one until an hour ago.
	long := time.Now().Add(-time.Hour).UnixMilli()
	if err := errors.Join(c.HSet(t.Context(), "notifier:{0}:layout", "history", "1000").Err(),
		c.HSet(t.Context(), "notifier:{0}:history", "seen", long).Err()); err != nil {
		t.Fatal(err)
	}
	examine(t, cfg, Options{}).says(t, "history", Warning, "waiting: 501 endings")
	if err := c.HSet(t.Context(), "notifier:{0}:history", "seen", time.Now().UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	examine(t, cfg, Options{}).says(t, "history", Info, "other instances write a history")
}

// claimFor makes the data identity id the owner of a history.
func claimFor(t *testing.T, url, id string) {
	t.Helper()
	d, err := history.Open(history.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	mine := history.Owner{Namespace: "notifier", ID: id}
	if has, ok, err := d.Owner(t.Context()); err != nil {
		t.Fatal(err)
	} else if ok {
		_, err = d.Claim(t.Context(), has.ID, mine)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	d.Serve(func(context.Context) (history.Owner, error) { return mine, nil })
	if _, err := d.Write(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// Notices finalized by a version without a history are missing there.
func TestInstanceWithoutOutboxIsReported(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	cfg.History = config.History{URL: config.Secret("sqlite://" + filepath.Join(t.TempDir(), "history.db")), Backlog: 1000}
	st := store.New(store.Options{Client: s.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	for figures, want := range map[string]bool{`{"since":1,"outbox":true}`: false, `{"since":1}`: true} {
		if _, err := fleet.NewStore(st.Layout).Publish(t.Context(), fleet.Heartbeat{ID: "aaaaaaaaaaaa", About: `{"label":"web","version":"v0"}`, Figures: figures}); err != nil {
			t.Fatal(err)
		}
		got := false
		for _, f := range examine(t, cfg, Options{}).Findings {
			got = got || f.Severity == Error && strings.Contains(f.Message, "version v0) has no history")
		}
		if got != want {
			t.Errorf("figures %q: reported %v, want %v", figures, got, want)
		}
	}
}

func TestSQLiteWithSeveralInstancesIsReported(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	cfg.History = config.History{URL: config.Secret("sqlite://" + filepath.Join(t.TempDir(), "history.db")), Backlog: 1000}
	st := store.New(store.Options{Client: s.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	for _, id := range []string{"aaaaaaaaaaaa", "bbbbbbbbbbbb"} {
		if _, err := fleet.NewStore(st.Layout).Publish(t.Context(), fleet.Heartbeat{ID: id, About: `{"label":"web"}`}); err != nil {
			t.Fatal(err)
		}
	}
	examine(t, cfg, Options{}).says(t, "history", Warning, "there are 2 instances")
}
