package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// The receiver sets the key again at the end of the attempt, also with a number, and then fails.
// The new value becomes a separate notice, and no retry replaces it.
func TestAFailedAttemptLeavesTheProducersNewTimer(t *testing.T) {
	t.Parallel()
	const n = 200
	g := newGot(10 * n)
	w, c := adopting(t, g, time.Hour)
	ctx := context.Background()
	payload := func(i int) string { return []string{"new", "2", "0", "1", `{"n":1}`}[i%5] }
	index := map[string]int{}
	for i := range n {
		index[key(i)] = i
	}
	g.reply = func(x *notice.Notice) notice.Result {
		if string(x.Body) == "old" {
			if err := c.Set(ctx, x.Key, payload(index[x.Key]), time.Hour).Err(); err != nil {
				t.Error(err)
			}
			return notice.RetryResult(notice.ReasonStatus5xx, "no")
		}
		return notice.DeliveredResult(200)
	}
	at := time.Now().Add(3 * time.Second).UnixMilli() // a slow instance must see the timers before they expire
	timers := c.Pipeline()
	for i := range n {
		timers.Do(ctx, "SET", key(i), "old", "PXAT", at)
	}
	if _, err := timers.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all adopted", func() bool {
		counts, _, err := w.Counts(ctx)
		return err == nil && counts[0].Pending == n
	})
	// The settle comes before the events of the new values. The listener sets the flags again, and
	// a scan then finds the values.
	c.ConfigSet(ctx, "notify-keyspace-events", "")
	for range n {
		<-g.seen
	}
	deadline, lost := time.Now().Add(20*time.Second), 0
	for i := range n {
		if !testkit.Within(time.Until(deadline), func() bool {
			f, err := w.Find(ctx, key(i))
			return err == nil && string(f.Body) == payload(i) && f.AttemptsMade == 0 && f.Due.After(time.Now().Add(50*time.Minute)) &&
				c.Get(ctx, key(i)).Val() == payload(i)
		}) {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d new values were lost", lost, n)
	}
}

// Calls of the API about the earlier notice do not delete a timer that was set since and not
// adopted yet: they adopt it first.
func TestACallLooksAtTheTimerFirst(t *testing.T) {
	t.Parallel()
	g := newGot(100)
	g.reply = func(*notice.Notice) notice.Result { return notice.DeadResult(notice.ReasonGone, "") }
	w, c := adopting(t, g)
	ctx := context.Background()
	flags := c.ConfigGet(ctx, "notify-keyspace-events").Val()["notify-keyspace-events"]
	unseen := func(k, v string) { // without an event
		t.Helper()
		c.ConfigSet(ctx, "notify-keyspace-events", "")
		if err := c.Set(ctx, k, v, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		c.ConfigSet(ctx, "notify-keyspace-events", flags)
	}
	dead := func(k string) {
		t.Helper()
		if _, err := w.Schedule(ctx, store.Request{Key: k, Content: notice.Content{Body: []byte("old")}}); err != nil {
			t.Fatal(err)
		}
		w.until(t, k, notice.Dead)
	}
	pending := func(k, v string) {
		t.Helper()
		if f, err := w.Find(ctx, k); err != nil || f.State != notice.Scheduled || string(f.Body) != v || c.Get(ctx, k).Val() != v {
			t.Errorf("%s: %+v, %v; the timer holds %q, want %q", k, f.Notice, err, c.Get(ctx, k).Val(), v)
		}
	}
	for i := range 3 {
		k := fmt.Sprintf("app1:a:redrive:%d", i)
		dead(k)
		unseen(k, "new")
		if ch, err := w.Redrive(ctx, k, notice.Expiry{}); err != nil || ch.Done || ch.Before != notice.Scheduled {
			t.Errorf("redrive: %+v, %v", ch, err)
		}
		pending(k, "new")

		k = fmt.Sprintf("app1:a:reschedule:%d", i)
		if _, err := w.Schedule(ctx, store.Request{Key: k, Delay: time.Hour, Content: notice.Content{Body: []byte("old")}}); err != nil {
			t.Fatal(err)
		}
		unseen(k, "new")
		if ch, err := w.Reschedule(ctx, k, time.Time{}, 2*time.Hour); err != nil || !ch.Done || string(ch.Body) != "new" {
			t.Errorf("reschedule: %+v, %v", ch, err)
		}
		pending(k, "new")

		k = fmt.Sprintf("app1:a:fire:%d", i)
		if _, err := w.Schedule(ctx, store.Request{Key: k, Delay: time.Hour, Content: notice.Content{Body: []byte("old")}}); err != nil {
			t.Fatal(err)
		}
		unseen(k, "new")
		if _, err := w.Fire(ctx, k); err != nil {
			t.Fatal(err)
		}
		if x := g.await(t, k); string(x.Body) != "new" {
			t.Errorf("fired %q, want the last value", x.Body)
		}
	}
	// Many at once are not looked at one by one; their timers are left alone.
	for i := range 3 {
		k := fmt.Sprintf("app1:a:many:%d", i)
		dead(k)
		unseen(k, "new")
	}
	// A scan, which follows when flags are found to be missing, may have adopted some.
	q := store.Query{Routes: []string{"app1"}, Prefix: "app1:a:many"}
	if r, err := w.AmendAll(ctx, store.Bulk{Query: q, Op: store.Redrive}); err != nil || r.Matched > 3 {
		t.Fatal(r, err)
	}
	for i := range 3 {
		k := fmt.Sprintf("app1:a:many:%d", i)
		if v := c.Get(ctx, k).Val(); v != "new" {
			t.Errorf("after a redrive of the route the timer of %s holds %q", k, v)
		}
	}
}

// The service's own timers hold "0" or the number of the coming attempt. So may a
// producer's, whose new payload then only moved the old one.
func TestAPayloadThatIsANumberReplacesAnother(t *testing.T) {
	t.Parallel()
	w, c := adopting(t, newGot(100))
	ctx := context.Background()
	const k = "app1:a:number:1"
	for i, v := range []string{"unpaid", "1", "0", "1", "paid", "0"} {
		life := time.Hour + time.Duration(i)*time.Minute
		var set time.Time
		eventually(t, "the notice follows the value "+v, func() bool {
			// A scan that sees the value long before its event takes it for the service's own.
			if time.Since(set) > 5*time.Second {
				if set = time.Now(); c.Set(ctx, k, v, life).Err() != nil {
					return false
				}
			}

			f, err := w.Find(ctx, k)
			return err == nil && f.State == notice.Scheduled && string(f.Body) == v &&
				f.Due.UnixMilli() == c.PExpireTime(ctx, k).Val().Milliseconds()+1
		})
	}
}
