package cli

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// kept is a history in SQLite to which put adds entries.
func kept(t *testing.T) (d *history.DB, put func(id string, at time.Time, change func(*history.Row))) {
	t.Helper()
	d, err := history.Open(history.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "history.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, func(id string, at time.Time, change func(*history.Row)) {
		t.Helper()
		r := history.Row{Outcome: notice.EndDelivered, Number: 1, Ended: at, Host: "shop.example", BodyKept: true, BodySize: 7,
			Notice: &notice.Notice{Key: "app1:orders:t:" + id, Route: "app1:orders", Made: notice.MadeAt(at), Due: at, AttemptsMade: 1,
				Content:  notice.Content{Body: []byte(`{"a":1}`)},
				Attempts: []notice.Attempt{{Number: 1, At: at, Status: 200, Response: "thanks"}}}}
		if change != nil {
			change(&r)
		}
		if _, err := d.Write(t.Context(), []history.Row{r}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHistoryCommand(t *testing.T) {
	t.Parallel()
	db, put := kept(t)
	d := newTestCLI(t, func(o *api.Options) { o.History = db })
	now := time.Now()
	for i := range 5 {
		put(fmt.Sprint(i), now.Add(-time.Duration(i)*time.Hour), nil)
	}
	put("dead", now.Add(-10*time.Hour), func(r *history.Row) {
		r.Outcome, r.Number, r.Reason, r.Attempts[0].Status, r.Attempts[0].Reason = notice.EndDead, 2, notice.ReasonGone, 410, notice.ReasonGone
	})
	out, _ := d.run(0, "history")
	contains(t, out, "ENDED", "app1:orders:t:0", "shop.example", "200 thanks", "dead (2)", "410 gone thanks")
	if strings.Index(out, "t:0") > strings.Index(out, "t:1") {
		t.Errorf("the latest is not the first:\n%s", out)
	}
	out, errs := d.run(0, "history", "--limit", "4", "--since", "5h")
	if strings.Count(out, "app1:") != 4 {
		t.Errorf("a page of four:\n%s", out)
	}
	contains(t, errs, "--cursor ")
	if out, errs = d.run(0, "history", "--limit", "2", "--all", "--json"); strings.Count(out, "\n") != 6 || errs != "" {
		t.Errorf("%s%s", out, errs)
	}
	out, _ = d.run(0, "history", "app1:orders:t:dead", "--json")
	contains(t, out, `"outcome": "dead"`, `"ending": 2`)
	out, _ = d.run(0, "history", "--outcome", "dead,cancelled", "--host", "shop.example", "--reason", "gone", "--prefix", "app1")
	if strings.Count(out, "app1:") != 1 {
		t.Error(out)
	}
	out, _ = d.run(0, "history", "--text", "THANKS", "--since", "90m")
	if strings.Count(out, "app1:") != 2 {
		t.Error(out)
	}
	_, errs = d.run(2, "history", "--text", "x")
	contains(t, errs, "window")
	out, _ = d.run(0, "get", "app1:orders:t:3")
	contains(t, out, "delivered", "thanks")
	for _, wrong := range [][]string{{"a", "b"}, {"--follow", "--until", "1h"}, {"--follow", "--all"}, {"--limit", "many"}} {
		d.run(2, append([]string{"history"}, wrong...)...)
	}
	_, errs = newTestCLI(t).run(1, "history")
	contains(t, errs, "NOTIFIER_HISTORY_URL")
}

// --follow prints each new entry once, including entries that are written after later ones.
func TestHistoryFollows(t *testing.T) {
	t.Parallel()
	db, put := kept(t)
	d := newTestCLI(t, func(o *api.Options) { o.History = db })
	now := time.Now()
	put("old", now.Add(-time.Hour), nil)
	put("first", now.Add(-30*time.Second), nil)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan int, 1)
	go func() {
		args := []string{"history", "--follow", "--json", "--since", "10m"}
		code := Main(ctx, Process{Args: args, Environ: d.env, Stdin: strings.NewReader(""), Stdout: w, Stderr: io.Discard, Version: "1"}, d.deps)
		_ = w.Close()
		done <- code
	}()
	lines := bufio.NewScanner(r)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), ":"+want+`"`) {
			t.Errorf("%s, want %s", lines.Text(), want)
		}
	}
	next("first")
	put("later", now, nil)
	next("later")
	put("late", now.Add(-time.Minute), nil)
	next("late")
	put("last", now.Add(time.Second), nil)
	next("last")
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }() // the remaining output
	if code := <-done; code != 0 {
		t.Errorf("exits with %d", code)
	}
}

// eraser records its calls.
type eraser struct {
	asked []history.Erasure
	done  history.Erased
}

func (e *eraser) Erase(_ context.Context, x history.Erasure) (history.Erased, error) {
	e.asked = append(e.asked, x)
	return e.done, nil
}

func TestEraseCommand(t *testing.T) {
	t.Parallel()
	e := &eraser{done: history.Erased{Rows: 3, Redis: 1}}
	d := newTestCLI(t, func(o *api.Options) { o.Eraser = e })
	out, errs := d.run(0, "erase", "--key", "app1:orders:t:1")
	contains(t, out, "erased 3 rows of the history, and 1 notice in Redis")
	if errs != "" {
		t.Error(errs)
	}
	e.done.Pending = 1
	out, errs = d.run(0, "erase", "--host", "Shop.example")
	contains(t, out, "erased 3 rows")
	contains(t, errs, "cancel it")
	out, _ = d.run(0, "erase", "--host", "shop.example", "--json")
	contains(t, out, `"rows": 3`)
	if len(e.asked) != 3 || e.asked[0] != (history.Erasure{Key: "app1:orders:t:1"}) || e.asked[1] != (history.Erasure{Host: "shop.example"}) {
		t.Errorf("%+v", e.asked)
	}
	if out, _ = d.run(0, "audit"); strings.Contains(out, "t:1") || strings.Contains(out, "shop.example") ||
		!strings.Contains(out, "erase x2") || strings.Count(out, "erase") != 2 {
		t.Errorf("the audit has no entry of the erasure, or the entry contains erased data:\n%s", out)
	}
	for _, wrong := range [][]string{{}, {"--key", "a", "--host", "b"}, {"x"}} {
		d.run(2, append([]string{"erase"}, wrong...)...)
	}
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	db, put := kept(t)
	d := newTestCLI(t, func(o *api.Options) { o.History = db })
	now := time.Now()
	for i := range 3 {
		put(fmt.Sprint(i), now.Add(-time.Duration(i)*time.Hour), func(r *history.Row) { r.Body = []byte(`{"n": [1, 2]}`) })
	}
	put("dropped", now.Add(-10*time.Hour), func(r *history.Row) { r.Body, r.BodyKept, r.Outcome = nil, false, notice.EndDead })
	put("secret", now.Add(-11*time.Hour), func(r *history.Row) { r.Headers = []notice.Header{{Name: "Authorization"}} })
	put("binary", now.Add(-12*time.Hour), func(r *history.Row) {
		r.Body, r.Headers, r.Ladder, r.URL, r.ContentType = []byte{0xff}, []notice.Header{{Name: "X-A", Value: "1"}}, notice.Ladder{time.Second},
			"https://shop.example/", "text/x"
	})
	out, errs := d.run(0, "export")
	contains(t, errs, "6 endings")
	if strings.Count(out, "\n") != 6 || !strings.HasPrefix(out, `{"key":"app1:orders:t:0"`) {
		t.Fatal(out)
	}
	if some, _ := d.run(0, "export", "--since", "90m"); strings.Count(some, "\n") != 2 {
		t.Error(some)
	}
	packed, _ := d.run(0, "export", "--gz")
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(z); err != nil || string(plain) != out {
		t.Errorf("%v:\n%s", err, plain)
	}
	d.stdin = out + `{"key":"app1:orders:t:new","url":"https://shop.example/","delay":"1h"}` + "\n"
	said, errs := d.run(1, "import", "-")
	contains(t, said, "1 created, 0 kept already, 1 refused", "5 finalized, skipped")
	contains(t, errs, "standard input:4: body_kept: its body was not kept")
	d.stdin = out
	said, errs = d.run(1, "import", "-", "--ended", "--json")
	contains(t, said, `"created": 1`, `"refused": 5`)
	contains(t, errs, "standard input:4: body_kept: its body was not kept", "standard input:5: headers_withheld: the value of Authorization",
		"app1:orders:t:0")
	got, _ := d.run(0, "get", "app1:orders:t:binary", "--json")
	contains(t, got, `"body_base64": "/w=="`, `"retry": [`, "text/x", `"X-A": "1"`)
}

// The import of an export, a listing or the pages' download restores dead letters once and schedules nothing.
func TestImportRestoresDeadLetters(t *testing.T) {
	t.Parallel()
	db, put := kept(t)
	d, pages := newTestCLIWithPages(t, db)
	content := notice.Content{URL: "https://shop.example/x", Headers: []notice.Header{{Name: "X-A", Value: "1"}}, Ladder: notice.Ladder{},
		Body: []byte("{\"n\": [1,\n  2]}")}
	const died, other = "app1:orders:t:dead", "app1:orders:t:other"
	for _, key := range []string{died, other, "app1:orders:t:delivered"} {
		if _, err := d.engine.Schedule(t.Context(), store.Request{Key: key, Content: content}); err != nil {
			t.Fatal(err)
		}
	}
	d.engine.Move("app1:orders:t:delivered", notice.Delivered, "")
	for _, key := range []string{died, other} {
		d.engine.Move(key, notice.Dead, notice.ReasonTimeout)
		f, err := d.engine.Find(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		put("x", f.SettledAt, func(r *history.Row) { r.Notice, r.Outcome, r.BodySize = f.Notice, notice.EndDead, len(f.Body) })
	}
	put("gone", time.Now(), nil)
	was, err := d.engine.Find(t.Context(), died)
	if err != nil {
		t.Fatal(err)
	}
	was.FirstDue = notice.UnknownDue // no file has it
	exported, _ := d.run(0, "export")
	listed, _ := d.run(0, "list", "--all", "--json")
	if strings.Count(exported, "\n") != 3 || strings.Count(listed, "\n") != 3 {
		t.Fatalf("%s%s", exported, listed)
	}
	downloaded := download(t, pages, "host=shop.example&reason=timeout&route=orders")
	for name, file := range map[string]string{"export": exported, "list": listed, "download": downloaded} {
		t.Run(name, func(t *testing.T) {
			d.t = t
			d.engine.Drop(died)
			if _, err := d.engine.Cancel(t.Context(), other); err != nil { // as a purge does
				t.Fatal(err)
			}
			d.stdin = file
			said, _ := d.run(0, "import", "-")
			contains(t, said, "0 created, 0 kept already, 0 refused", "2 restored")
			if name != "download" {
				contains(t, said, "1 finalized, skipped")
			}
			now, err := d.engine.Find(t.Context(), died)
			if err != nil || !reflect.DeepEqual(now.Notice, was.Notice) || now.ID() != was.ID() ||
				now.State != was.State || !now.SettledAt.Equal(was.SettledAt) {
				t.Errorf("%v\n%+v %+v\nwas\n%+v %+v", err, now, now.Notice, was, was.Notice)
			}
			said, _ = d.run(0, "import", "-", "--json")
			contains(t, said, `"kept": 2`, `"put_back": 0`, `"created": 0`)
			if _, err := d.engine.Redrive(t.Context(), died, notice.Expiry{}); err != nil {
				t.Fatal(err)
			}
			_, errs := d.run(1, "import", "-")
			contains(t, errs, died, "another notice is kept under this key", "scheduled")
			d.engine.Move(died, notice.Dead, notice.ReasonTimeout)
		})
	}
	d.t = t
	if out, _ := d.run(0, "audit"); !strings.Contains(out, "restore x3") {
		t.Errorf("the audit:\n%s", out)
	}
	d.stdin = strings.Replace(listed, "https://shop.example", "https://me:xxxxx@shop.example", 1)
	_, errs := d.run(1, "import", "-")
	contains(t, errs, "names a user, and the password was not kept")
}

// The import of a listing restores pending notices with attempts and webhook-id.
func TestImportRestoresPendingNotices(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const key, redriven = "app1:orders:t:tried", "app1:orders:t:redriven"
	for _, k := range []string{key, redriven} {
		if _, err := d.engine.Schedule(t.Context(), store.Request{Key: k, Delay: time.Hour, Content: notice.Content{URL: "https://shop.example/x",
			Headers: []notice.Header{{Name: "X-A", Value: "1"}}, Ladder: notice.Ladder{time.Minute, time.Hour},
			Body: []byte("{\"n\": [1,\n  2]}")}}); err != nil {
			t.Fatal(err)
		}
		d.engine.Move(k, notice.Dead, notice.ReasonTimeout)
		f, err := d.engine.Find(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		d.engine.Drop(k)
		// One is in flight by now, and the other was redriven.
		n := *f.Notice
		n.AttemptsMade, n.Attempts, n.Reason, n.Due = 0, nil, "", time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
		n.Add(notice.Attempt{Number: 1, At: n.Made.Time().UTC(), Duration: 12345 * time.Microsecond, Status: 500, Reason: notice.ReasonStatus5xx,
			Response: "no"})
		if k == redriven {
			n.Endings, n.AttemptsMade, n.Attempts[0].Number, n.Redriven = 1, 4, 4, 3
		}
		if r := d.engine.Restore(t.Context(), []store.Letter{{Notice: &n}}); !r[0].Created {
			t.Fatalf("%+v", r)
		}
	}
	listed, _ := d.run(0, "list", "--all", "--json")
	contains(t, listed, `"attempt":2,"attempts_made":1,"max_attempts":3`, `"attempt":5,"attempts_made":4,"max_attempts":6`)
	d.stdin = listed
	said, _ := d.run(0, "import", "-", "--json")
	contains(t, said, `"kept": 2`, `"put_back": 0`)
	for _, k := range []string{key, redriven} {
		d.engine.Drop(k)
	}
	said, _ = d.run(0, "import", "-", "--json")
	contains(t, said, `"kept": 0`, `"put_back": 2`, `"created": 0`)
	if again, _ := d.run(0, "list", "--all", "--json"); again != listed {
		t.Errorf("%s\nwas\n%s", again, listed)
	}
	d.stdin = strings.ReplaceAll(listed, `"due"`, `"x-due"`)
	_, errs := d.run(1, "import", "-")
	contains(t, errs, "due")
}

// The shares of a month are of the notices that were delivered or died.
func TestReportCommand(t *testing.T) {
	t.Parallel()
	db, put := kept(t)
	d := newTestCLI(t, func(o *api.Options) { o.History = db })
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	put("1", at, nil)
	put("2", at, func(r *history.Row) { r.Outcome, r.Reason = notice.EndDead, notice.ReasonGone })
	put("3", at, func(r *history.Row) { r.Outcome = notice.EndCancelled })
	put("4", at, func(r *history.Row) { r.Outcome = notice.EndReplaced })
	out, _ := d.run(0, "report", "--month", "2026-11")
	contains(t, out, "NOTICES", "shop.example", " 4 ", "50.00 %")
	for _, command := range [][]string{{"report"}, {"search", "x"}} {
		_, errs := d.run(2, append(command, "--csv", "--json")...)
		contains(t, errs, "--csv and --json exclude each other: want --csv or --json")
	}
}
