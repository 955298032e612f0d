package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// chosen returns the names of the notices that a replay would send, with the numbers of their entries, and
// the choices.
func chosen(t *testing.T, d *DB, r *Replay) (list []string, choices []Choice) {
	t.Helper()
	if r.Outcomes == nil {
		r.Outcomes = []notice.Ending{notice.EndDelivered, notice.EndDead}
	}
	err := d.Choose(t.Context(), r, func(row *Row, c Choice) error {
		list = append(list, fmt.Sprintf("%s/%d", row.Key[len("app1:orders:paid:"):], c.Ending))
		choices = append(choices, c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list, choices
}

func TestReplayChoosesLastEntryOfEachNotice(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		again := func(i, number int, outcome notice.Ending, after time.Duration) store.Entry {
			return ended(i, func(e *store.Entry) { e.Number, e.Outcome, e.At = number, outcome, e.At.Add(after) })
		}
		write(t, d, rowsOf(BodiesKeep, ended(0, nil), again(1, 1, notice.EndDead, 0), again(1, 2, notice.EndDead, time.Minute),
			again(1, 3, notice.EndDelivered, 48*time.Hour),
			again(2, 1, notice.EndDead, 0), again(2, 2, notice.EndCancelled, time.Hour), again(3, 1, notice.EndReplaced, 0),
			again(4, 1, notice.EndDead, 0),
			ended(5, func(e *store.Entry) { e.Host = "other.example" }),
			// Redis had lost its last second: the same entry, with two times.
			ended(6, nil), again(6, 1, notice.EndDelivered, 3*time.Second)))
		window := ReplayAbout{Since: noon, Until: noon.Add(time.Hour)}
		for _, c := range []struct {
			change func(r *Replay)
			want   string
		}{
			{func(*Replay) {}, "0/1 1/3 4/1 5/1 6/1"},
			{func(r *Replay) { r.Outcomes = []notice.Ending{notice.EndDead} }, "4/1"},
			{func(r *Replay) { r.Outcomes = []notice.Ending{notice.EndDelivered} }, "0/1 1/3 5/1 6/1"},
			{func(r *Replay) { r.Host = "other.example" }, "5/1"},
			{func(r *Replay) { r.Prefix = "app1:orders" }, "0/1 4/1 6/1"},
			{func(r *Replay) { r.Since = noon.Add(4 * time.Second) }, "4/1 5/1 6/1 1/3"},
			{func(r *Replay) { r.Until = noon.Add(4 * time.Second) }, "0/1 1/3"},
			{func(r *Replay) { r.Since, r.Until = noon.AddDate(0, 0, 9), noon.AddDate(0, 0, 10) }, ""},
		} {
			r := &Replay{ReplayAbout: window}
			c.change(r)
			if got, _ := chosen(t, d, r); strings.Join(got, " ") != c.want {
				t.Errorf("%+v: %v, want %s", r, got, c.want)
			}
		}
	})
}

// More than one page of notices, some finalized at the same time.
func TestReplayChoosesPageByPage(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		const n = choosePage + 100
		var list []store.Entry
		for i := range n {
			list = append(list, ended(i, func(e *store.Entry) { e.At = noon.Add(time.Duration(i/7) * time.Millisecond) }))
		}
		write(t, d, rowsOf(BodiesHash, list...))
		r := &Replay{ID: "rpl_many", ReplayAbout: ReplayAbout{Since: noon, Until: noon.Add(time.Hour), Rate: 1}}
		got, choices := chosen(t, d, r)
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != n {
			t.Fatalf("%d of %d", len(got), n)
		}
		if err := d.AddReplay(t.Context(), r, choices); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for after := int64(0); ; {
			items, err := d.ReplayItems(t.Context(), r.ID, after, 300)
			if err != nil {
				t.Fatal(err)
			}
			if len(items) == 0 {
				break
			}
			for _, it := range items {
				if after++; it.Number != after || it.Row == nil || it.Row.ID() != choices[after-1].ID || it.Row.BodyKept {
					t.Fatalf("%d: %+v", after, it)
				}
				seen[it.Row.ID()] = true
			}
		}
		if len(seen) != n {
			t.Errorf("%d items of %d", len(seen), n)
		}
	})
}

func TestReplayHasOneDriverAtATime(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d, other := open(t, Options{URL: url}), open(t, Options{URL: url})
		write(t, d, rowsOf(BodiesKeep, ended(0, nil), ended(1, nil)))
		r := &Replay{ID: "rpl_1", Prefix: "app1", Client: "me", ReplayAbout: ReplayAbout{Since: noon, Until: noon.Add(time.Hour), Rate: 50,
			Shards: 3, Refused: map[string]int64{"x": 1}}}
		_, choices := chosen(t, d, &Replay{ReplayAbout: r.ReplayAbout})
		if err := d.AddReplay(t.Context(), r, choices); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := other.Replay(t.Context(), r.ID); err != nil || !ok || got.Shards != 3 || got.Refused["x"] != 1 || got.Rate != 50 ||
			got.Total != 2 || got.Client != "me" ||
			!got.Until.Equal(r.Until) || got.State != ReplayRunning || time.Since(got.Made).Abs() > time.Hour {
			t.Errorf("%+v, %v, %v", got, ok, err)
		}
		for prefix, want := range map[string]int{"": 1, "app1": 1, "app": 0, "app1:orders": 0, "app12": 0} {
			if list, err := d.Replays(t.Context(), prefix, 10); err != nil || len(list) != want {
				t.Errorf("%q: %d, %v", prefix, len(list), err)
			}
		}
		take := func(d *DB, who string, hold time.Duration, want bool) {
			t.Helper()
			if _, ok, err := d.TakeReplay(t.Context(), who, hold, nil); err != nil || ok != want {
				t.Errorf("%s takes it: %v, %v", who, ok, err)
			}
		}
		keep := func(who string, want bool) {
			t.Helper()
			r.Done, r.Counts = 1, map[string]int64{"sent": 1}
			if ok, err := d.KeepReplay(t.Context(), r, who, time.Minute); err != nil || ok != want {
				t.Errorf("%s keeps it: %v, %v", who, ok, err)
			}
		}
		if _, ok, err := d.TakeReplay(t.Context(), "one", time.Minute, []string{"other", "me"}); err != nil || ok {
			t.Errorf("a driver that leaves the client's replays takes one: %v", err)
		}
		take(d, "one", time.Minute, true)
		take(other, "two", time.Minute, false)
		keep("one", true)
		keep("two", false)
		if err := d.LeaveReplay(t.Context(), r.ID, "two"); err != nil {
			t.Fatal(err)
		}
		take(other, "two", time.Minute, false)
		if err := d.LeaveReplay(t.Context(), r.ID, "one"); err != nil {
			t.Fatal(err)
		}
		take(other, "two", -time.Minute, true) // its hold has ended already
		take(d, "three", time.Minute, true)
		keep("two", false)
		if ok, err := other.StopReplay(t.Context(), r.ID); err != nil || !ok {
			t.Fatal(ok, err)
		}
		keep("three", false)
		take(d, "three", time.Minute, false)
		if ok, err := other.ResumeReplay(t.Context(), r.ID); err != nil || !ok {
			t.Fatal(ok, err)
		}
		take(d, "four", time.Minute, true)
		r.State, r.Done = ReplayDone, 2
		if err := d.EndReplay(t.Context(), r, "three"); err != nil {
			t.Fatal(err)
		}
		if items, err := d.ReplayItems(t.Context(), r.ID, 0, 10); err != nil || len(items) != 2 {
			t.Errorf("one that had lost it has ended it: %d items, %v", len(items), err)
		}
		if err := d.EndReplay(t.Context(), r, "four"); err != nil {
			t.Fatal(err)
		}
		if items, err := d.ReplayItems(t.Context(), r.ID, 0, 10); err != nil || len(items) != 0 {
			t.Errorf("%d items of a finished replay, %v", len(items), err)
		}
		if got, _, err := d.Replay(t.Context(), r.ID); err != nil || got.State != ReplayDone || got.Counts["sent"] != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := d.Expire(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := d.Replay(t.Context(), r.ID); err != nil || !ok {
			t.Error("deleted at once", err)
		}
		old := any(time.Now().Add(-31 * 24 * time.Hour))
		if d.sqlite {
			old = time.Now().Add(-31 * 24 * time.Hour).UnixMicro()
		}
		if err := d.run(t.Context(), "UPDATE history_replays SET changed = ?", old); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Expire(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := d.Replay(t.Context(), r.ID); err != nil || ok {
			t.Error("it is not forgotten after 30 days", err)
		}
	})
}

func TestErasureRemovesReplayItems(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		write(t, d, rowsOf(BodiesKeep, ended(0, nil), ended(1, nil), ended(2, func(e *store.Entry) { e.Host = "other.example" })))
		about := ReplayAbout{Since: noon, Until: noon.Add(time.Hour), Rate: 50}
		r := &Replay{ID: "rpl_1", Host: "", ReplayAbout: about}
		_, choices := chosen(t, d, &Replay{ReplayAbout: about})
		erase := func(x Erasure) {
			t.Helper()
			if _, err := d.Erase(t.Context(), x, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		erase(Erasure{Key: "app1:orders:paid:0"}) // between choosing and writing
		if err := d.AddReplay(t.Context(), r, choices); err != nil {
			t.Fatal(err)
		}
		if err := d.AddReplay(t.Context(), &Replay{ID: "rpl_2", Host: "other.example", ReplayAbout: about}, choices[2:]); err != nil {
			t.Fatal(err)
		}
		left := func(want string) {
			t.Helper()
			var names string
			group := "group_concat(name, ' ')"
			if !d.sqlite {
				group = "string_agg(name, ' ')"
			}
			err := d.db.QueryRow("SELECT coalesce(" + group +
				", '') FROM (SELECT name || '' AS name FROM history_replay_items WHERE name <> '' AND id <> '' ORDER BY replay, number) x").Scan(&names)
			if err != nil || names != want {
				t.Errorf("%q, want %q, %v", names, want, err)
			}
		}
		left("1 2 2")
		erase(Erasure{Key: "app2:orders:paid:1"})
		left("2 2")
		erase(Erasure{Host: "other.example"})
		left("")
		items, err := d.ReplayItems(t.Context(), "rpl_1", 0, 10)
		if err != nil || len(items) != 3 || slices.ContainsFunc(items, func(it ReplayItem) bool { return it.Row != nil }) {
			t.Errorf("%+v, %v", items, err)
		}
		if x, _, err := d.Replay(t.Context(), "rpl_2"); err != nil || strings.Contains(x.Host, "other") {
			t.Errorf("%+v, %v", x, err)
		}
	})
}

// A client learns nothing about the ids given by other clients.
func TestReplayNamesAreSeparatePerClient(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		write(t, d, rowsOf(BodiesKeep, ended(0, nil), ended(1, nil)))
		about := ReplayAbout{Since: noon, Until: noon.Add(time.Hour), Rate: 50}
		_, choices := chosen(t, d, &Replay{ReplayAbout: about})
		add := func(id, client, prefix string) error {
			return d.AddReplay(t.Context(), &Replay{ID: id, Name: "nightly", Client: client, Prefix: prefix, ReplayAbout: about}, choices)
		}
		for _, err := range []error{add("rpl_1", "one", "app1"), add("rpl_2", "two", "app2"), add("rpl_3", "", "")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := add("rpl_4", "one", "app1"); !errors.Is(err, ErrReplayKnown) {
			t.Errorf("the same client again: %v", err)
		}
		whose := func(s string) *string { return &s }
		for _, v := range []struct {
			q    ReplayQuery
			want string // IDs
		}{
			{ReplayQuery{Caller: "one", Prefix: "app1"}, "rpl_1"},
			{ReplayQuery{Caller: "two", Prefix: "app2"}, "rpl_2"},
			{ReplayQuery{Caller: "three", Prefix: "app3"}, ""},
			{ReplayQuery{Caller: "two", Prefix: "app2", Whose: whose("one")}, ""},
			{ReplayQuery{Caller: "other", Prefix: "app1"}, "rpl_1"}, // within the same prefix
			{ReplayQuery{Caller: "two"}, "rpl_2"},
			{ReplayQuery{Caller: "all", Whose: whose("one")}, "rpl_1"},
			{ReplayQuery{Caller: "all", Whose: whose("")}, "rpl_3"},
		} {
			v.q.Name = "nightly"
			list, err := d.FindReplays(t.Context(), v.q)
			got := ""
			for _, r := range list {
				got += r.ID
			}
			if err != nil || got != v.want {
				t.Errorf("%+v: %q, %v; want %q", v.q, got, err, v.want)
			}
		}
		if list, err := d.FindReplays(t.Context(), ReplayQuery{Name: "nightly", Caller: "all"}); err != nil || len(list) != 2 {
			t.Errorf("of several clients: %d, %v", len(list), err)
		}
	})
}

// Replays created by the previous version keep their ids, which are unique.
func TestReplaysOfPreviousVersionAreFound(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		if err := d.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		about := ReplayAbout{Since: noon, Until: noon.Add(time.Hour), Rate: 50}
		for _, id := range []string{"old", "older"} {
			if err := d.AddReplay(t.Context(), &Replay{ID: id, Client: "one", ReplayAbout: about}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.run(t.Context(), "UPDATE history_replays SET name = ''"); err != nil { // as that version writes them while both run
			t.Fatal(err)
		}
		list, err := d.FindReplays(t.Context(), ReplayQuery{Name: "old", Caller: "one"})
		if err != nil || len(list) != 1 || list[0].ID != "old" || list[0].Name != "old" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
