package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// begun is when this process began.
var begun = time.Now().Truncate(time.Second)

// every returns a definition with a tick each interval. No test runs long enough to reach a tick of one of an hour.
func every(key string, interval time.Duration) recur.Definition {
	spec := recur.Spec{Every: interval, Anchor: begun}
	return recur.Definition{Key: key, Spec: spec, Content: notice.Content{Body: []byte(`{"a": "b\n"}`)}}
}

// define stores a definition.
func (w *world) define(t *testing.T, d recur.Definition) recur.Recurrence {
	t.Helper()
	x, _, err := w.Recurrences().Put(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestDefinitionsAreListedAndDeleted(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), newGot(10), nil, testRoute("r", "app1"), testRoute("s", "app1:b"), testRoute("p", "app2"))
	ctx, all := t.Context(), w.Recurrences()
	for i := range 9 {
		w.define(t, every(fmt.Sprintf("app%d:%c:c:n%d", 1+i%2, 'a'+i%3, i), time.Hour))
	}

	d := every("app1:a:c:n0", time.Hour)
	if x, created, err := all.Put(ctx, d); err != nil || created || x.Changes != 1 {
		t.Errorf("the same definition again: %+v, %v, %v", x.State, created, err)
	}

	d.Content.Body = []byte("two")
	if x, created, err := all.Put(ctx, d); err != nil || created || x.Changes != 2 || string(x.Content.Body) != "two" {
		t.Errorf("another body: %+v, %v, %v", x, created, err)
	}

	for under, want := range map[string]int{"": 9, "app1": 5, "app1:b": 1} {
		var got []string
		after := ""
		for more := true; more; {
			list, next, err := all.List(ctx, under, after, 2)
			if err != nil || len(list) == 0 {
				t.Fatalf("%d definitions: %v", len(list), err)
			}

			for _, x := range list {
				got = append(got, x.Key)
			}

			after, more = list[len(list)-1].Key, next
		}

		if len(got) != want {
			t.Errorf("under %q: %v", under, got)
		}

		for i := range got {
			if i > 0 && got[i-1] >= got[i] {
				t.Errorf("under %q not in order: %v", under, got)
			}
		}
	}

	if x, err := all.Get(ctx, d.Key); err != nil || !x.Same(&d) {
		t.Errorf("%+v, %v", x, err)
	}
	if err := all.Delete(ctx, d.Key); err != nil {
		t.Error(err)
	}
	if _, err := all.Get(ctx, d.Key); !errors.Is(err, store.ErrNotDefined) {
		t.Errorf("after the deletion: %v", err)
	}
	if err := all.Delete(ctx, d.Key); !errors.Is(err, store.ErrNotDefined) {
		t.Errorf("deleted twice: %v", err)
	}
	if list, _, err := all.List(ctx, "app1", "", 10); err != nil || len(list) != 4 {
		t.Errorf("%d definitions, %v", len(list), err)
	}
}

func TestDefinitionsMustFitTheirRoute(t *testing.T) {
	t.Parallel()
	ordered := orderedRoute(route.OrderSkip)
	ordered.Name, ordered.Prefix = "o", "app2"
	w := start(t, testkit.SharedRedis(t), newGot(10), nil, testRoute("r", "app1"), ordered)
	for _, c := range []struct {
		field string
		edit  func(*recur.Definition)
	}{
		{"key", func(d *recur.Definition) { d.Key = "app1:a:b:n~12" }},
		{"every", func(d *recur.Definition) { d.Spec.Every = time.Millisecond }},
		{"overlap", func(d *recur.Definition) { d.Overlap = recur.OverlapWait }},
		{"overlap", func(d *recur.Definition) { d.Key, d.Overlap = "app2:a:b:n", recur.OverlapAllow }},
		{"overlap", func(d *recur.Definition) { d.Overlap = "never" }},
		{"missed", func(d *recur.Definition) { d.Missed = "some" }},
		{"missed_most", func(d *recur.Definition) { d.MissedMost = 3 }},
		{"expires", func(d *recur.Definition) { d.Content.Expires = time.Now() }},
		{"retry", func(d *recur.Definition) { d.Content.Ladder = notice.Ladder{-time.Hour} }},
		{"times", func(d *recur.Definition) { d.Times = -1 }},
		{"until", func(d *recur.Definition) { d.From, d.Until = time.Now(), time.Now().Add(-time.Hour) }},
		{"until", func(d *recur.Definition) { d.Until = time.Now().Add(-time.Hour) }},
		{"until", func(d *recur.Definition) { // there is no tick between them
			d.Spec.Anchor = time.Time{}
			d.From = time.Date(2190, 1, 1, 0, 10, 0, 0, time.UTC)
			d.Until = d.From.Add(time.Minute)
		}},
	} {
		d := every("app1:a:b:n", time.Hour)
		c.edit(&d)
		_, _, err := w.Recurrences().Put(t.Context(), d)
		var f recur.Fault
		if !errors.As(err, &f) || f.Field != c.field || !errors.Is(err, notice.ErrInvalid) {
			t.Errorf("want a fault in %s: %v", c.field, err)
		}
	}

	if _, _, err := w.Recurrences().Put(t.Context(), every("app9:a:b:n", time.Hour)); !errors.Is(err, store.ErrUnrouted) {
		t.Errorf("without a route: %v", err)
	}
}

// The end of a definition that was stored may have passed: one from another service, and the same one again.
func TestStoredDefinitionMayBeOver(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), newGot(10), nil, testRoute("r", "app1"))
	d := every("app1:a:b:n", time.Hour)
	d.Until, d.MinNumber = time.Now().Add(-time.Hour), 3
	if _, _, err := w.Recurrences().Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	d.MinNumber, d.Content.Body = 0, []byte("other")
	if _, _, err := w.Recurrences().Put(t.Context(), d); err != nil {
		t.Errorf("a change after the end: %v", err)
	}
	d.Until = d.Until.Add(time.Minute)
	if _, _, err := w.Recurrences().Put(t.Context(), d); !errors.Is(err, notice.ErrInvalid) {
		t.Errorf("another end that has passed: %v", err)
	}
}

// occurrences waits until n occurrences were handled, and returns them by number.
func occurrences(t *testing.T, g *got, key string, n int) map[int]notice.Notice {
	t.Helper()
	found := map[int]notice.Notice{}
	eventually(t, fmt.Sprintf("%d occurrences of %s", n, key), func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for k, all := range g.all {
			if of, number, ok := recur.ParseOccurrence(k); ok && of == key {
				if len(all) != 1 {
					t.Errorf("%s was handled %d times", k, len(all))
				}
				found[number] = all[0]
			}
		}
		return len(found) >= n
	})
	return found
}

// Two instances store each occurrence exactly once.
func TestTwoInstancesStoreEachOccurrenceOnce(t *testing.T) {
	t.Parallel()
	srv, g := testkit.SharedRedis(t), newGot(100)
	w := start(t, srv, g, nil, testRoute("r", "app1"))
	start(t, srv, g, nil, testRoute("r", "app1"))
	for i := range 20 {
		d := every(fmt.Sprintf("app1:a:b:n%d", i), time.Second)
		d.Times = 3
		w.define(t, d)
	}

	for i := range 20 {
		key := fmt.Sprintf("app1:a:b:n%d", i)
		all := occurrences(t, g, key, 3)
		for number := 1; number <= 3; number++ {
			n := all[number]
			if !n.Tick.Equal(n.Due) || n.Tick.UnixMilli()%1000 != 0 {
				t.Errorf("%s is for %s, due %s", n.Key, n.Tick, n.Due)
			}
		}

		x, err := w.Recurrences().Get(t.Context(), key)
		if err != nil || x.Number != 3 || x.Stored != 3 || x.State.Missed+x.Occupied+x.Overlapped != 0 || len(all) != 3 {
			t.Errorf("%+v, %v", x.State, err)
		}
	}

	eventually(t, "definitions without a next tick", func() bool {
		return srv.Client().ZCard(t.Context(), srv.Namespace()+":{0}:ticks:app1").Val() == 0
	})
}

// A definition that is deleted and stored again goes on with its numbers, and skips a number that is taken.
func TestRecreatedDefinitionGoesOnWithItsNumbers(t *testing.T) {
	t.Parallel()
	g := newGot(100)
	w := start(t, testkit.SharedRedis(t), g, nil, testRoute("r", "app1"))
	ctx, all := t.Context(), w.Recurrences()
	d := every("app1:a:b:n", time.Hour)
	d.Paused = true
	w.define(t, d)
	for i := 1; i <= 2; i++ {
		if r, err := all.RunNow(ctx, d.Key); err != nil || !r.Created || r.Key != recur.OccurrenceKey(d.Key, i) || r.Tick.IsZero() {
			t.Fatalf("run %d: %+v, %v", i, r, err)
		}
	}

	if err := all.Delete(ctx, d.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := all.RunNow(ctx, d.Key); !errors.Is(err, store.ErrNotDefined) {
		t.Errorf("run after the deletion: %v", err)
	}

	w.put(t, 1, func(int) store.Request { return store.Request{Key: recur.OccurrenceKey(d.Key, 3), Delay: time.Hour} })
	d.Paused, d.Spec.Every, d.Times = false, time.Second, 1
	if x := w.define(t, d); x.Number != 2 || x.Stored != 0 {
		t.Errorf("stored again: %+v", x.State)
	}

	occurrences(t, g, d.Key, 3)
	if x, err := all.Get(ctx, d.Key); err != nil || x.Number != 4 || x.Occupied != 1 || x.Stored != 1 {
		t.Errorf("%+v, %v", x.State, err)
	}
}

// An occurrence that was stored ahead is withdrawn by a change or pause of its definition, and its tick gets another one.
func TestChangedDefinitionReplacesItsPendingOccurrence(t *testing.T) {
	t.Parallel()
	g := newGot(100)
	w := start(t, testkit.SharedRedis(t), g, nil, testRoute("r", "app1"))
	ctx, all := t.Context(), w.Recurrences()
	d := every("app1:a:b:n", time.Hour)
	d.Spec.Anchor, d.Times = w.Now().Add(4*time.Second).Truncate(time.Millisecond), 1
	w.define(t, d)
	w.until(t, recur.OccurrenceKey(d.Key, 1), notice.Scheduled)
	d.Content.Body = []byte("two")
	if x := w.define(t, d); x.Stored != 0 || x.Number != 1 {
		t.Errorf("%+v", x.State)
	}

	w.until(t, recur.OccurrenceKey(d.Key, 1), notice.Cancelled)
	w.until(t, recur.OccurrenceKey(d.Key, 2), notice.Scheduled)
	if x, err := all.Pause(ctx, d.Key); err != nil || x.Stored != 0 {
		t.Fatalf("paused: %+v, %v", x.State, err)
	}

	w.until(t, recur.OccurrenceKey(d.Key, 2), notice.Cancelled)
	if _, err := all.Resume(ctx, d.Key); err != nil {
		t.Fatal(err)
	}

	n := occurrences(t, g, d.Key, 1)[3]
	if string(n.Body) != "two" || !n.Tick.Equal(d.Spec.Anchor) {
		t.Errorf("%s for %s, want the tick %s", n.Body, n.Tick, d.Spec.Anchor)
	}
}

// With the policy skip, a tick has no occurrence while an earlier one is pending.
func TestOverlappingTicksAreSkipped(t *testing.T) {
	t.Parallel()
	g, release := newGot(100), make(chan struct{})
	g.reply = func(n *notice.Notice) notice.Result {
		if n.Key == "app1:a:b:n~1" {
			<-release
		}
		return notice.DeliveredResult(200)
	}
	r := testRoute("r", "app1")
	r.Timeout = time.Minute // the first occurrence stays in flight
	w := start(t, testkit.SharedRedis(t), g, nil, r)
	d := every("app1:a:b:n", time.Second)
	d.Overlap, d.Times = recur.OverlapSkip, 2
	w.define(t, d)
	state := func() recur.State {
		x, err := w.Recurrences().Get(t.Context(), d.Key)
		if err != nil {
			t.Error(err)
		}
		return x.State
	}
	eventually(t, "two ticks to overlap", func() bool { return state().Overlapped >= 2 })
	if x := state(); x.Stored != 1 || x.Number != 1 {
		t.Errorf("while the first one is in flight: %+v", x)
	}
	close(release)
	w.until(t, "app1:a:b:n~2", notice.Delivered)
	if x := state(); x.Stored != 2 || x.Number != 2 {
		t.Errorf("%+v", x)
	}
}

// The ticks of a paused route are missed; the policy decides on them when it is resumed.
func TestTicksOfAPausedRouteAreMissed(t *testing.T) {
	t.Parallel()
	const ticks = 5
	g := newGot(100)
	w := start(t, testkit.SharedRedis(t), g, nil, testRoute("r", "app1"))
	ctx := t.Context()
	w.pauseRoute(t, "app1")
	first := w.Now().Add(-time.Hour).Truncate(time.Second)
	for _, missed := range []recur.Missed{recur.MissedLatest, recur.MissedAll} {
		d := every("app1:a:b:"+string(missed), time.Second)
		d.Missed, d.Until = missed, first.Add((ticks-1)*time.Second)
		state, _ := d.Redefined(&recur.Recurrence{}, first.Add(-1)) // as if it was defined before its ticks
		change := store.Define{Definition: &d, State: state, Next: w.Now()}
		if _, err := store.NewRecurrences(w.store).Define(ctx, "app1", d.Key, change); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.Resume(ctx, "app1"); err != nil {
		t.Fatal(err)
	}

	for key, stored := range map[string]int{"app1:a:b:latest": 1, "app1:a:b:all": ticks} {
		all := occurrences(t, g, key, stored)
		if last := all[stored].Tick; !last.Equal(first.Add((ticks - 1) * time.Second)) {
			t.Errorf("%s: the last one is for %s", key, last)
		}
		x, err := w.Recurrences().Get(ctx, key)
		if err != nil || x.Stored != stored || x.State.Missed != ticks-stored {
			t.Errorf("%s: %+v, %v", key, x.State, err)
		}
	}
}

// On an ordered route an occurrence waits for the one before it. A dead one releases it, unless the route blocks.
func TestOccurrencesWaitOnAnOrderedRoute(t *testing.T) {
	t.Parallel()
	for _, order := range []route.Order{route.OrderSkip, route.OrderBlock} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			g, release := newGot(100), make(chan struct{})
			g.reply = func(n *notice.Notice) notice.Result {
				if n.Key != "app1:a:b:n~1" || n.Redriven > 0 {
					return notice.DeliveredResult(200)
				}
				<-release
				return notice.DeadResult(notice.ReasonGone, "no")
			}
			r := orderedRoute(order)
			r.Timeout = time.Minute
			w := start(t, testkit.SharedRedis(t), g, nil, r)
			d := every("app1:a:b:n", time.Hour)
			d.Paused = true
			w.define(t, d)
			run := func() {
				t.Helper()
				if _, err := w.Recurrences().RunNow(t.Context(), d.Key); err != nil {
					t.Fatal(err)
				}
			}
			run()
			w.until(t, "app1:a:b:n~1", notice.Claimed)
			run()
			p := w.store.Space().Partition("app1", d.Key)
			eventually(t, "the second one to be parked", func() bool {
				return w.srv.Client().ZCard(t.Context(), w.store.Space().Successors(p)).Val() == 1
			})
			if n := g.times("app1:a:b:n~2"); n != 0 {
				t.Error("the second one was handled beside the first")
			}
			close(release)
			w.until(t, "app1:a:b:n~1", notice.Dead)
			if order == route.OrderBlock {
				if n := w.srv.Client().ZCard(t.Context(), w.store.Space().Successors(p)).Val(); n != 1 || g.times("app1:a:b:n~2") != 0 {
					t.Errorf("a dead letter does not hold back its successor: %d", n)
				}
				if _, err := w.Redrive(t.Context(), "app1:a:b:n~1", notice.Expiry{}); err != nil {
					t.Fatal(err)
				}
			}
			w.until(t, "app1:a:b:n~2", notice.Delivered)
		})
	}
}

// An instance that cannot read a definition, because its zone is not known here, leaves it to others, and stores the occurrences of the
// others of the partition.
func TestDefinitionsThatCannotBeReadAreLeft(t *testing.T) {
	t.Parallel()
	g := newGot(10)
	w := start(t, testkit.SharedRedis(t), g, nil, testRoute("r", "app1"))
	strange, plain := "app1:b:c:n", "app1:b:d:n" // of one order key, so in one partition
	w.define(t, every(strange, time.Hour))
	p := w.store.Space().Partition("app1", strange)
	c := w.srv.Client()
	text := c.HGet(t.Context(), w.store.Space().Recurring(p), strange).Val()
	head, _, _ := strings.Cut(text, "\n")
	if err := c.HSet(t.Context(), w.store.Space().Recurring(p), strange, head+"\n{").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.ZAdd(t.Context(), w.store.Space().Ticks(p), redis.Z{Score: 1, Member: strange}).Err(); err != nil {
		t.Fatal(err)
	}

	w.define(t, every(plain, time.Second))
	occurrences(t, g, plain, 2)
	if score, err := c.ZScore(t.Context(), w.store.Space().Ticks(p), strange).Result(); err != nil || score != 1 {
		t.Errorf("the definition is to be read at %v, %v", score, err)
	}
}
