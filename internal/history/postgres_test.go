//go:build !quick

package history

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

const withPostgres = true

func TestRejectedColumnsAreLeftOut(t *testing.T) {
	t.Parallel()
	d := open(t, Options{URL: testkit.PostgresDatabase(t)})
	list := rowsOf(BodiesKeep, ended(1, nil), ended(2, nil), ended(3, nil), ended(4, func(e *store.Entry) {
		e.Body, e.Headers, e.Attempts[0].Response = nil, []notice.Header{{Name: "X-Shop", Value: "7"}}, "poison"
	}))
	// No code of this program creates such a row. It is stored nevertheless.
	list[1].Notice.AttemptsMade = 1 << 20
	if err := d.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.db.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.body_text = '{"order":2}' OR NEW.attempts LIKE '%poison%' THEN RAISE 'no' USING ERRCODE = '22021'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION refuse()`); err != nil {
		t.Fatal(err)
	}
	if w := write(t, d, list); w != (Written{Rows: 4, Bare: 2}) {
		t.Errorf("%+v", w)
	}
	r, ok, err := d.Latest(t.Context(), list[1].Key)
	if err != nil || !ok || r.BodyKept || r.Body != nil || r.BodySize != len(list[1].Body) || len(r.Attempts) != 0 {
		t.Errorf("%+v %v", r, err)
	}
	// Its missing body is not recorded, because it had none; its header is.
	if r, ok, err = d.Latest(t.Context(), list[3].Key); err != nil || !ok || len(r.Withheld) != 1 || len(r.Headers) != 1 ||
		r.Headers[0] != (notice.Header{Name: "X-Shop"}) {
		t.Errorf("%+v %v", r, err)
	}
}

// A running search must not hold up the writes of a new day.
func TestNewPartitionWaitsForNoSearch(t *testing.T) {
	t.Parallel()
	d := open(t, Options{URL: testkit.PostgresDatabase(t)})
	write(t, d, rowsOf(BodiesKeep, ended(1, nil)))
	tx, err := d.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("SELECT count(*) FROM history"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := d.Write(ctx, rowsOf(BodiesKeep, ended(2, func(e *store.Entry) { e.At = noon.AddDate(0, 0, 3) }))); err != nil {
		t.Fatal(err)
	}
}

// The minimal rights in docs/history.md suffice for all operations.
func TestMinimalRightsSuffice(t *testing.T) {
	t.Parallel()
	admin := testkit.PostgresDatabase(t)
	a := open(t, Options{URL: admin})
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	writer, reader := name+"_writer", name+"_reader"
	for _, sql := range []string{
		"CREATE ROLE " + writer + " LOGIN", "CREATE ROLE " + reader + " LOGIN",
		"REVOKE ALL ON DATABASE " + name + " FROM PUBLIC", "REVOKE ALL ON SCHEMA public FROM PUBLIC",
		fmt.Sprintf("GRANT CONNECT ON DATABASE %s TO %s, %s", name, writer, reader),
		"CREATE SCHEMA notifier AUTHORIZATION " + writer, "GRANT USAGE ON SCHEMA notifier TO " + reader,
		fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET search_path = notifier", writer, name),
		fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET search_path = notifier", reader, name),
		fmt.Sprintf("ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA notifier GRANT SELECT ON TABLES TO %s", writer, reader),
	} {
		if _, err := a.db.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	t.Cleanup(func() {
		for _, r := range []string{writer, reader} {
			_, _ = a.db.Exec("DROP OWNED BY " + r + " CASCADE")
			_, _ = a.db.Exec("DROP ROLE " + r)
		}
	})
	as := func(role string) *DB {
		c := *u
		c.User = url.User(role)
		return open(t, Options{URL: c.String(), Retention: 24 * time.Hour})
	}
	w := as(writer)
	write(t, w, rowsOf(BodiesKeep, ended(1, nil), ended(2, func(e *store.Entry) { e.At = time.Now() })))
	if n, err := w.Expire(t.Context(), time.Now()); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	rp := &Replay{ID: "rpl_1", ReplayAbout: ReplayAbout{Until: time.Now()}}
	if err := w.AddReplay(t.Context(), rp, []Choice{{Ended: noon.UnixMicro(), ID: "x", Ending: 1}}); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := w.TakeReplay(t.Context(), "me", time.Minute, nil); err != nil || !ok || got.Total != 1 {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
	if _, err := w.Expire(t.Context(), time.Now()); err != nil {
		t.Error(err)
	}
	r := as(reader)
	if list, err := r.Replays(t.Context(), "", 10); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := r.StopReplay(t.Context(), "rpl_1"); err == nil {
		t.Error("the reader has stopped a replay")
	}
	if got := all(t, r, Query{Limit: 10}); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if _, err := r.Write(t.Context(), rowsOf(BodiesKeep, ended(3, nil))); err == nil {
		t.Error("the reader has written")
	}
}

// doctor reported ok where serve could not write.
func TestTryFailsWithoutTheRightToWrite(t *testing.T) {
	t.Parallel()
	admin := testkit.PostgresDatabase(t)
	a := open(t, Options{URL: admin})
	write(t, a, rowsOf(BodiesKeep, ended(1, nil)))
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	reader := strings.TrimPrefix(u.Path, "/") + "_looks"
	for _, sql := range []string{"CREATE ROLE " + reader + " LOGIN", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO " + reader} {
		if _, err := a.db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = a.db.Exec("DROP OWNED BY " + reader + " CASCADE; DROP ROLE " + reader) })

	u.User = url.User(reader)
	if err := open(t, Options{URL: u.String()}).Try(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("%v", err)
	}

	missing := open(t, Options{URL: "sqlite:///nonexistent/history.db"})
	if err := missing.Try(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be created") {
		t.Errorf("%v", err)
	}
	broken := filepath.Join(t.TempDir(), "history.db")
	if err := os.WriteFile(broken, []byte("not a database, and long enough to be read as one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Options{URL: "sqlite://" + broken}).Try(t.Context()); err == nil {
		t.Error("takes a file that is no database")
	}
}
