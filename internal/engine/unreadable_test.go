package engine

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Records as another program or version may write them.
var broken = []string{"garbage \xff\x00", "null", "{}", "[1,2]", `{"due":1,"made":2,"json":{"a`, `"due`, ",", "{", `{"due":1763740800000,"made":1763740785000,"base64":"%%"}`,
	`{"due":1763740800000,"made":1763740785000,"retry":"no ladder"}`, strings.Repeat("x", 5000), ""}

var firstDue = regexp.MustCompile(`^(\{"due":\d+,"made":\d+),"first":\d+`)

func unreadable(text string) notice.Reason {
	if text == "" {
		return "missing"
	}
	return "unreadable"
}

// breakRecord puts text in the place of a record; "" takes it away.
func breakRecord(t *testing.T, srv *testkit.Redis, key, text string) {
	t.Helper()
	records := keys.Space{Namespace: srv.Namespace(), Shards: 1}.Records(keys.Partition{Prefix: "app1"})
	c, ctx := srv.Client(), context.Background()
	if text == "" {
		if err := c.HDel(ctx, records, key).Err(); err != nil {
			t.Fatal(err)
		}
	} else if err := c.HSet(ctx, records, key, text).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestARecordThatCannotBeReadBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	g := newGot(100)
	w := start(t, srv, g, nil, testRoute("r", "app1"))
	ctx := context.Background()
	name := func(i int) string { return fmt.Sprintf("app1:a:broken:%d", i) }
	for i, text := range broken {
		if _, err := w.Schedule(ctx, store.Request{Key: name(i), Delay: time.Hour, Content: notice.Content{Body: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		breakRecord(t, srv, name(i), text)
	}
	const good = "app1:a:good:1"
	if _, err := w.Schedule(ctx, store.Request{Key: good, Delay: time.Hour, Content: notice.Content{Body: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	// While they wait, nothing that reads them fails.
	page, err := w.List(ctx, store.Query{Routes: []string{"app1"}, Limit: 100})
	if err != nil || len(page.Items) != len(broken)+1 {
		t.Fatalf("%d items, %v", len(page.Items), err)
	}
	for i, text := range broken {
		f, err := w.Find(ctx, name(i))
		if err != nil || f.State != notice.Scheduled || f.Reason != unreadable(text) || string(f.Raw) != text {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
		if ch, err := w.Reschedule(ctx, name(i), time.Time{}, 2*time.Hour); err != nil || !ch.Done {
			t.Errorf("reschedule %q: %+v, %v", text, ch, err)
		}
		r, err := w.Schedule(ctx, store.Request{Key: name(i), Delay: time.Hour})
		if err != nil || text != "" && (r.Created || len(r.Differs) == 0) {
			t.Errorf("schedule over %q: %+v, %v", text, r, err)
		}
		breakRecord(t, srv, name(i), text)
		if ch, err := w.Fire(ctx, name(i)); err != nil || !ch.Done {
			t.Errorf("fire %q: %+v, %v", text, ch, err)
		}
	}
	for i, text := range broken {
		f := w.until(t, name(i), notice.Dead)
		if f.Reason != unreadable(text) || string(f.Raw) != text && !strings.HasPrefix(text, `{"due":`) {
			t.Errorf("%q: dead for %s with %q", text, f.Reason, f.Raw)
		}
		// A change of the due time adds the first one behind the head.
		if !strings.HasSuffix(firstDue.ReplaceAllString(string(f.Raw), "$1"), text[strings.IndexByte(text, ',')+1:]) {
			t.Errorf("%q: the stored text ends differently: %q", text, f.Raw)
		}
	}
	if n := g.times(name(0)); n != 0 {
		t.Errorf("a handler was given what could not be read, %d times", n)
	}
	// They are found by their reason, redriven to no avail, and purged.
	page, err = w.List(ctx, store.Query{Routes: []string{"app1"}, State: notice.Dead, Reason: "unreadable", Limit: 100})
	if err != nil || len(page.Items) != len(broken)-1 {
		t.Errorf("%d items, %v", len(page.Items), err)
	}
	if r, err := w.AmendAll(ctx, store.Bulk{Query: store.Query{Routes: []string{"app1"}}, Op: store.Redrive}); err != nil ||
		r.Changed != len(broken) {
		t.Errorf("%+v, %v", r, err)
	}
	for i, text := range broken {
		eventually(t, "dead again", func() bool {
			f, err := w.Find(ctx, name(i))
			return err == nil && f.State == notice.Dead && f.AttemptsMade == 2 && f.Reason == unreadable(text)
		})
		if ch, err := w.Cancel(ctx, name(i)); err != nil || !ch.Done {
			t.Errorf("purge %q: %+v, %v", text, ch, err)
		}
	}
	if ch, err := w.Fire(ctx, good); err != nil || !ch.Done {
		t.Fatal(ch, err)
	}
	w.until(t, good, notice.Delivered)
}

// A dead letter with an invalid record blocks no other notice.
func TestABrokenDeadLetterDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	g := newGot(1000)
	g.reply = func(*notice.Notice) notice.Result { return notice.DeadResult(notice.ReasonGone, "") }
	w := start(t, srv, g, nil, testRoute("r", "app1"))
	ctx := context.Background()
	for i := range 2 * len(broken) {
		if _, err := w.Schedule(ctx, store.Request{Key: key(i), Content: notice.Content{Body: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * len(broken) {
		w.until(t, key(i), notice.Dead)
		if i%2 == 0 {
			breakRecord(t, srv, key(i), broken[i/2])
		}
	}
	g.mu.Lock()
	g.reply = nil
	g.mu.Unlock()
	page, err := w.List(ctx, store.Query{Routes: []string{"app1"}, State: notice.Dead, Limit: 100})
	if err != nil || len(page.Items) != 2*len(broken) {
		t.Errorf("%d items, %v", len(page.Items), err)
	}
	if r, err := w.AmendAll(ctx, store.Bulk{Query: store.Query{Routes: []string{"app1"}}, Op: store.Redrive}); err != nil ||
		r.Changed != 2*len(broken) {
		t.Fatalf("%+v, %v", r, err)
	}
	for i := range 2 * len(broken) {
		if i%2 == 1 {
			w.until(t, key(i), notice.Delivered)
		} else if f := w.until(t, key(i), notice.Dead); f.Reason != unreadable(broken[i/2]) {
			t.Errorf("%q: %+v", broken[i/2], f.Notice)
		}
	}
}
