package engine

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// resends resends from as many goroutines at once, and returns how many changed something.
func (w *world) resends(t *testing.T, key, id string, ending, n int) int64 {
	t.Helper()
	var changed atomic.Int64
	done := make(chan error, n)
	for range n {
		go func() {
			c, err := w.Resend(t.Context(), key, id, ending, notice.Expiry{})
			if c.Done {
				changed.Add(1)
			} else if err == nil && !c.Repeated {
				err = errors.New("neither changed nor repeated")
			}
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return changed.Load()
}

// refuses fails unless a resend is refused for a notice in a state.
func (w *world) refuses(t *testing.T, key, id string, ending int, state notice.State) {
	t.Helper()
	var r *jobs.Refusal
	if c, err := w.Resend(t.Context(), key, id, ending, notice.Expiry{}); !errors.As(err, &r) || r.State != state || c.Done {
		t.Errorf("%s, ending %d: %+v, %v, want a refusal in state %q", id, ending, c, err, state)
	}
}

func TestResendDeliversOnceMore(t *testing.T) {
	t.Parallel()
	g := newGot(100)
	w := start(t, testkit.SharedRedis(t), g, nil, testRoute("trans", "app1:trans"))
	k := key(1)
	w.put(t, 1, func(int) store.Request { return store.Request{Key: k, Content: notice.Content{Body: []byte(`1`)}} })
	f := w.until(t, k, notice.Delivered)
	w.refuses(t, k, f.ID(), 2, notice.Delivered)
	w.refuses(t, k, "msg_0123456789abcdef0123456789", 1, "")

	if n := w.resends(t, k, f.ID(), 1, 8); n != 1 {
		t.Errorf("%d of 8 resends of one ending changed something", n)
	}
	again := w.untilEnding(t, k, 2)
	if again.ID() != f.ID() || again.State != notice.Delivered || again.AttemptsMade != 2 {
		t.Errorf("delivered again: %+v", again.Notice)
	}
	if c, err := w.Resend(t.Context(), k, f.ID(), 1, notice.Expiry{}); err != nil || !c.Repeated || c.Before != notice.Delivered {
		t.Errorf("the same call after the delivery: %+v, %v", c, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if all := g.all[k]; len(all) != 2 || all[0].Resend != 0 || all[1].Resend != 1 || all[1].ID() != f.ID() {
		t.Errorf("handled: %+v", all)
	}
}

// untilEnding waits until a notice has been finalized so often.
func (w *world) untilEnding(t *testing.T, key string, ending int) (f store.Found) {
	t.Helper()
	eventually(t, "the notice is finalized", func() bool {
		var err error
		f, err = w.Find(t.Context(), key)
		return err == nil && f.Ending() == ending && !f.SettledAt.IsZero()
	})
	return f
}

func TestResendStartsTheLadderAgain(t *testing.T) {
	t.Parallel()
	s := newSink(100)
	s.answer = func(*notice.Notice) notice.Result { return notice.RetryResult(notice.ReasonStatus5xx, "no") }
	w := start(t, testkit.SharedRedis(t), s, nil, testRoute("trans", "app1:trans"))
	k := key(1)
	w.put(t, 1, func(int) store.Request { return store.Request{Key: k} })
	f := w.until(t, k, notice.Dead)
	if n := w.resends(t, k, f.ID(), 1, 1); n != 1 {
		t.Fatal("not resent")
	}
	if f = w.untilEnding(t, k, 2); f.State != notice.Dead || f.AttemptsMade != 6 {
		t.Errorf("after the resend: %s after %d attempts, want dead after 6", f.State, f.AttemptsMade)
	}

	if c, err := w.Redrive(t.Context(), k, notice.Expiry{}); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	w.untilEnding(t, k, 3)
	w.refuses(t, k, f.ID(), 1, notice.Dead)
	if c, err := w.Cancel(t.Context(), k); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	w.refuses(t, k, f.ID(), 3, notice.Cancelled)
}

func TestResendReadsTheHistory(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, d *history.DB) {
		g := newGot(100)
		w := start(t, testkit.SharedRedis(t), g, func(o *Options) {
			o.History, o.Retention = History{DB: d, Backlog: 1000}, 0
		}, testRoute("trans", "app1:trans"))
		k := key(1)
		w.put(t, 1, func(int) store.Request {
			return store.Request{Key: k, Content: notice.Content{Body: []byte(`{"n":1}`)}}
		})
		id := rowsOf(t, d, history.Query{Key: k}, 1)[0].ID()
		w.refuses(t, k, id, 2, notice.Delivered)
		if n := w.resends(t, k, id, 1, 1); n != 1 {
			t.Fatal("not resent")
		}
		rows := rowsOf(t, d, history.Query{Key: k}, 2)
		if rows[0].Number != 2 || rows[0].ID() != id || rows[0].AttemptsMade != 2 || string(rows[0].Body) != `{"n":1}` || rows[0].Resend != 1 {
			t.Errorf("the entry of the resend: %+v", rows[0])
		}
		if c, err := w.Resend(t.Context(), k, id, 1, notice.Expiry{}); err != nil || c.Done || !c.Repeated {
			t.Errorf("the same call after Redis has dropped the resent notice: %+v, %v", c, err)
		}
		if n := w.resends(t, k, id, 2, 1); n != 1 {
			t.Fatal("not resent a second time")
		}
		if rows = rowsOf(t, d, history.Query{Key: k}, 3); rows[0].Resend != 2 || rows[0].Resent != 2 {
			t.Errorf("the entry of the second resend: %+v", rows[0])
		}
		w.refuses(t, k, id, 1, notice.Delivered)
		g.mu.Lock()
		defer g.mu.Unlock()
		if all := g.all[k]; len(all) != 3 || all[1].Resend != 1 || all[2].Resend != 2 || all[1].ID() != id {
			t.Errorf("handled: %+v", all)
		}
	})
}

// A delivered notice that is resent from the history goes behind the pending notices of its sequence, like one that Redis has.
func TestResendFromTheHistoryGetsANewPosition(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	first, second := "app1:shop:created:O1", "app1:shop:paid:O1"
	h := newSink(100)
	h.answer = func(n *notice.Notice) notice.Result {
		if n.Key == second {
			return notice.RetryResult(notice.ReasonStatus5xx, "no")
		}
		return notice.DeliveredResult(200)
	}
	r := orderedRoute(route.OrderSkip)
	r.Ladder = notice.Ladder{time.Hour}
	w, d := keeps(t, srv, h, func(o *Options) { o.Retention = 0 }, r)
	for _, k := range []string{first, second} {
		if _, err := w.Schedule(t.Context(), store.Request{Key: k}); err != nil {
			t.Fatal(err)
		}
		h.await(t, 1)
	}
	id := rowsOf(t, d, history.Query{Key: first}, 1)[0].ID()
	w.until(t, second, notice.Scheduled)
	if n := w.resends(t, first, id, 1, 1); n != 1 {
		t.Fatal("not resent")
	}
	q, err := testkit.ReadSequences(t.Context(), srv.Client(), w.store.Space().Base(0), r.Prefix)
	if err != nil || len(q.Members) != 2 || !strings.HasSuffix(q.Members[0], " "+second) {
		t.Errorf("the sequence is %q, %v", q.Members, err)
	}
}

func TestResendNeedsTheWholeNotice(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w, d := keeps(t, srv, newSink(100), func(o *Options) { o.History.Bodies, o.Retention = history.BodiesHash, 0 },
		testRoute("trans", "app1:trans"))
	k := key(1)
	w.put(t, 1, func(int) store.Request { return store.Request{Key: k, Content: notice.Content{Body: []byte(`1`)}} })
	id := rowsOf(t, d, history.Query{Key: k}, 1)[0].ID()
	w.refuses(t, k, id, 1, notice.Delivered)
	if _, err := w.Resend(t.Context(), key(2), id, 1, notice.Expiry{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a key without a notice: %v", err)
	}
}

// A key without an expiry is not a timer. It is not adopted, and a resend keeps it. The error said
// that other calls change the notice.
func TestResendIsRefusedWhileTheProducerHasTheKey(t *testing.T) {
	t.Parallel()
	w, client := adopting(t, newGot(100))
	const k = "app1:trans:notice:1"
	w.put(t, 1, func(int) store.Request { return store.Request{Key: k, Content: notice.Content{Body: []byte(`1`)}} })
	f := w.until(t, k, notice.Delivered)
	if err := client.Set(t.Context(), k, "mine", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var r *jobs.Refusal
	if _, err := w.Resend(t.Context(), k, f.ID(), 1, notice.Expiry{}); !errors.As(err, &r) || r.Reason != jobs.ProducersKey ||
		r.State != notice.Delivered {
		t.Errorf("with the producer's key: %v", err)
	}
	if err := client.Del(t.Context(), k).Err(); err != nil {
		t.Fatal(err)
	}
	if n := w.resends(t, k, f.ID(), 1, 4); n != 1 {
		t.Errorf("%d of 4 resends without the key changed something", n)
	}
}
