package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// blockingLog is a handler that refuses the notices of app1 until answers is set, and records the calls of the hook's route.
type blockingLog struct {
	hookLog
	got     *got
	answers atomic.Bool
}

func newBlockingLog() *blockingLog { return &blockingLog{got: newGot(1000)} }

func (l *blockingLog) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	if r.Name == "alarms" || !l.answers.Load() {
		return l.hookLog.Handle(ctx, r, n)
	}
	return l.got.Handle(ctx, r, n)
}

// blocked starts an instance with a hooked route whose dead letters hold back their successors.
func blocked(t *testing.T, srv *testkit.Redis, l *blockingLog, d *history.DB) *world {
	t.Helper()
	routes := hooked()
	routes[0].Order = route.OrderBlock
	return start(t, srv, l, func(o *Options) { o.History = History{DB: d, Backlog: 10000} }, routes...)
}

const inSequence = 3

func inOrder(i int) string { return fmt.Sprintf("app1:shop:paid:O%d~%d", i/inSequence, i%inSequence+1) }

// job starts a job.
func (w *world) job(t *testing.T, kind string, f jobs.Filter) jobs.Job {
	t.Helper()
	f.Route = "app1"
	r, err := w.MakeJob(t.Context(), jobs.Job{Kind: kind, Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// reached waits until a job is in a state, or has changed n notices.
func (w *world) reached(t *testing.T, id, state string, n int64) (r jobs.Job) {
	t.Helper()
	testkit.Await(t, func() (err error) {
		if r, err = w.ReadRedirect(t.Context(), id); err == nil && (r.State != state || r.Redirected < n) {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	return r
}

// A redrive at a rate of dead letters that hold back their successors takes each once, although a reshard moves them. Each
// notice is delivered once, and the hook and the history have each death once.
func TestRedriveJobOfBlockedSequencesDuringReshard(t *testing.T) {
	t.Parallel()
	const sequences = 40
	srv, l, d := testkit.SharedRedis(t), newBlockingLog(), openHistory(t, "sqlite://"+t.TempDir()+"/history.db")
	w, other := blocked(t, srv, l, d), blocked(t, srv, l, d)
	w.put(t, sequences*inSequence, func(i int) store.Request { return store.Request{Key: inOrder(i)} })
	l.await(t, sequences)
	l.answers.Store(true)
	r := other.job(t, jobs.KindRedrive, jobs.Filter{Rate: 20})
	w.reached(t, r.ID, jobs.Running, 5)
	if done, err := move.Reshard(t.Context(), move.Options{Conn: w.o.Conn, Namespace: srv.Namespace(), To: 3}); err != nil || !done.Changed {
		t.Fatalf("%+v, %v", done, err)
	}
	if r = w.reached(t, r.ID, jobs.Done, 0); r.Redirected != sequences || r.Refused != 0 {
		t.Errorf("%+v", r)
	}
	for i := range sequences * inSequence {
		w.until(t, inOrder(i), notice.Delivered)
		if n := l.got.times(inOrder(i)); n != 1 {
			t.Errorf("%d deliveries of %s", n, inOrder(i))
		}
	}
	w.emptied(t)
	l.await(t, sequences)
	rowsOf(t, d, history.Query{Prefix: "app1"}, sequences*(1+inSequence))
}

// inTurn fails unless the notices of n sequences are delivered in order, from a number on.
func (l *blockingLog) inTurn(t *testing.T, n, from int) {
	t.Helper()
	last := map[int]int{}
	for range n * (inSequence + 1 - from) {
		var sequence, number int
		if _, err := fmt.Sscanf(testkit.Next(t, "a delivery", l.got.seen), "app1:shop:paid:O%d~%d", &sequence, &number); err != nil {
			t.Fatal(err)
		}
		if last[sequence]++; last[sequence] != number+1-from {
			t.Errorf("sequence %d: delivery %d is of notice %d", sequence, last[sequence], number)
		}
	}
}

// A redrive goes on while Redis is full. A dead letter that dies again is not taken again, and its hook waits in the outbox until there is
// room. Later the sequences are delivered in order.
func TestRedriveJobAndHooksInFullRedis(t *testing.T) {
	t.Parallel()
	const sequences = 20
	srv, l, d := testkit.StartRedis(t), newBlockingLog(), openHistory(t, "sqlite://"+t.TempDir()+"/history.db")
	w := blocked(t, srv, l, d)
	w.put(t, sequences*inSequence, func(i int) store.Request { return store.Request{Key: inOrder(i)} })
	l.await(t, sequences)
	w.emptied(t)
	memory := func(bytes string) {
		t.Helper()
		if err := srv.Client().ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	memory("1")
	if r := w.reached(t, w.job(t, jobs.KindRedrive, jobs.Filter{Rate: 50}).ID, jobs.Done, 0); r.Redirected != sequences {
		t.Errorf("%+v", r)
	}
	rowsOf(t, d, history.Query{Prefix: "app1"}, 2*sequences)
	if n, err := w.store.DeathsWaiting(t.Context(), 0); n != sequences || err != nil {
		t.Errorf("%d deaths wait for the hook, %v, want %d", n, err, sequences)
	}
	memory("0")
	w.emptied(t)
	eventually(t, "the hook has each death", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.ids) == 2*sequences && len(l.hookLog.got) == 2*sequences
	})

	l.answers.Store(true)
	if r := w.reached(t, w.job(t, jobs.KindRedrive, jobs.Filter{}).ID, jobs.Done, 0); r.Redirected != sequences {
		t.Errorf("%+v", r)
	}
	l.inTurn(t, sequences, 1)
	rowsOf(t, d, history.Query{Prefix: "app1"}, sequences*(2+inSequence))
}

// retire removes the dead letters of app1 beyond a number, as the instances do every 30 s.
func (w *world) retire(t *testing.T, keep int64) {
	t.Helper()
	all := store.NewRetirement(w.store)
	handed, err := all.Handed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for shard := range w.store.Space().Places() {
		if _, _, err := all.Retire(t.Context(), keys.Partition{Prefix: "app1", Shard: shard}, store.DeadLimit{Keep: keep}, handed); err != nil {
			t.Fatal(err)
		}
	}
}

// Dead letters beyond the maximum number are removed, and their successors go on. A reshard keeps the number, and a redrive takes the
// remaining ones.
func TestDeadLimitOfBlockedSequences(t *testing.T) {
	t.Parallel()
	const sequences, keep = 12, 6
	srv, l, d := testkit.SharedRedis(t), newBlockingLog(), openHistory(t, "sqlite://"+t.TempDir()+"/history.db")
	routes := hooked()
	routes[0].Order, routes[0].DeadKeep = route.OrderBlock, keep
	w := start(t, srv, l, func(o *Options) { o.History = History{DB: d, Backlog: 10000} }, routes...)
	w.put(t, sequences*inSequence, func(i int) store.Request { return store.Request{Key: inOrder(i)} })
	l.await(t, sequences)
	w.emptied(t)
	l.answers.Store(true)
	states := func(of notice.State) (n int) {
		for i := 0; i < sequences*inSequence; i += inSequence {
			if w.state(inOrder(i)) == of {
				n++
			}
		}
		return n
	}
	rowsOf(t, d, history.Query{Prefix: "app1"}, sequences) // dead letters without an entry of the history stay
	w.retire(t, keep)
	if n := states(notice.Dead); n != keep {
		t.Errorf("%d dead letters are left, want %d", n, keep)
	}
	if n := states(notice.Cancelled); n != sequences-keep {
		t.Errorf("%d dead letters are cancelled, want %d", n, sequences-keep)
	}
	l.inTurn(t, sequences-keep, 2)

	if done, err := move.Reshard(t.Context(), move.Options{Conn: w.o.Conn, Namespace: srv.Namespace(), To: 3}); err != nil || !done.Changed {
		t.Fatalf("%+v, %v", done, err)
	}
	rowsOf(t, d, history.Query{Prefix: "app1"}, sequences+(sequences-keep)*(inSequence-1))
	w.retire(t, keep)
	left := states(notice.Dead)
	if left == 0 || left > keep {
		t.Errorf("%d dead letters are left, want 1 to %d", left, keep)
	}
	l.inTurn(t, keep-left, 2)
	if r := w.reached(t, w.job(t, jobs.KindRedrive, jobs.Filter{Rate: 20}).ID, jobs.Done, 0); r.Redirected != int64(left) {
		t.Errorf("%+v, want %d redriven", r, left)
	}
	l.inTurn(t, left, 1)
	rowsOf(t, d, history.Query{Prefix: "app1"}, sequences*inSequence+left)
}
