package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// confirming is a Store whose calls and settles wait.
func confirmingOn(t *testing.T, a wire.Address, w wire.Confirm) *Store {
	t.Helper()
	return confirmingShards(t, a, w, 1)
}

// confirmingShards is confirmingOn with so many shards.
func confirmingShards(t *testing.T, a wire.Address, w wire.Confirm, shards int) *Store {
	t.Helper()
	c, err := wire.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := New(Options{Client: c.Commander, Conn: c, Space: keys.Space{Namespace: "notifier", Shards: shards},
		Cluster:  a.Mode == "cluster",
		Prefixes: []string{prefix}, Retention: time.Hour, Retain: 1000, Confirm: w, ConfirmSettle: w})
	if err := s.w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// replicated is a master with a replica in step.
func replicated(t *testing.T) (master, replica *testkit.Redis) {
	t.Helper()
	master = testkit.StartRedis(t, testkit.WithConfig("repl-diskless-sync-delay 0"))
	replica = testkit.StartRedis(t, testkit.WithConfig("replicaof "+strings.ReplaceAll(master.Addr(), ":", " ")))
	testkit.Until(t, "the replica is in step", func() bool {
		return strings.Contains(master.Client().Info(t.Context(), "replication").Val(), "state=online")
	})
	return master, replica
}

// awaitBlocked waits until n connections of a server wait for a confirmation.
func awaitBlocked(t *testing.T, srv *testkit.Redis, n int) {
	t.Helper()
	testkit.Await(t, func() error {
		info := srv.Client().Info(t.Context(), "clients").Val()
		if !strings.Contains(info, fmt.Sprintf("blocked_clients:%d\r", n)) {
			return fmt.Errorf("want %d blocked connections:\n%s", n, info)
		}
		return nil
	})
}

// unconfirmed counts notices without a confirmation, by operation.
type unconfirmed map[string]int

func (unconfirmed) Failed(string, error)                    {}
func (unconfirmed) Finalized(int, int)                      {}
func (unconfirmed) ForeignKeys(string, int)                 {}
func (u unconfirmed) Unconfirmed(op string, n int, _ error) { u[op] += n }

// Every write that callers wait for, with its replica there, away, and back.
func TestWritesAreConfirmedByAReplica(t *testing.T) {
	t.Parallel()
	master, replica := replicated(t)
	one := notice.Durability{Replicas: 1}
	patient := confirmingOn(t, wire.Address{URL: master.URL()}, wire.Confirm{Durability: one, Timeout: 20 * time.Second})
	hasty := confirmingOn(t, wire.Address{URL: master.URL()}, wire.Confirm{Durability: one, Timeout: 50 * time.Millisecond})
	s := patient
	plain := on(t, master.URL(), "notifier")
	reported := unconfirmed{}
	hasty.o.Observer = reported
	ctx := t.Context()
	schedule := func(key string, d Duplicate) (Reply, error) {
		r, err := s.Schedule(ctx, partition, []Request{{Key: key, Delay: time.Hour, OnDuplicate: d}})
		if err != nil {
			t.Fatal(err)
		}
		return r[0], r[0].Err
	}
	amend := func(op Amendment, before notice.State, done bool) func(key string) error {
		return func(key string) error {
			c, err := s.Amend(ctx, prefix, key, op, When{Delay: time.Hour})
			if c.Before != before || c.Done != done {
				t.Errorf("%s: %+v, %v", op, c, err)
			}
			return err
		}
	}
	ready := func(key string) { plain.put(t, Request{Key: key, Delay: time.Hour}) }
	die := func(key string) {
		plain.put(t, Request{Key: key})
		if _, err := plain.Settle(ctx, partition, []Settlement{{Claim: plain.take(t, key, "x"), Ending: EndDead}}); err != nil {
			t.Fatal(err)
		}
	}
	writes := []struct {
		op, name string
		before   func(key string)
		do       func(key string) error
	}{
		{"schedule", "schedule", func(string) {}, func(key string) error {
			r, err := schedule(key, Reject)
			if !r.Created {
				t.Errorf("not created: %+v", r)
			}
			return err
		}},
		{"schedule", "repeat", ready, func(key string) error {
			r, err := schedule(key, Reject)
			if r.Created || r.Notice == nil {
				t.Errorf("repeated: %+v", r)
			}
			return err
		}},
		{"schedule", "keep", ready, func(key string) error { _, err := schedule(key, Keep); return err }},
		{"schedule", "replace", ready, func(key string) error { _, err := schedule(key, Replace); return err }},
		{"amend", "reschedule", ready, amend(Reschedule, notice.Scheduled, true)},
		{"amend", "fire", ready, amend(Fire, notice.Scheduled, true)},
		{"amend", "cancel", ready, amend(Cancel, notice.Scheduled, true)},
		{"amend", "cancel twice", func(key string) {
			ready(key)
			if _, err := plain.Amend(ctx, prefix, key, Cancel, When{}); err != nil {
				t.Fatal(err)
			}
		}, amend(Cancel, notice.Cancelled, false)},
		{"amend", "redrive", die, amend(Redrive, notice.Dead, true)},
		{"amend", "redrive many", die, func(key string) error {
			n, _, err := s.AmendMany(ctx, Redrive, []Amended{{Prefix: prefix, Key: key}})
			if n != 1 {
				t.Errorf("%d redriven", n)
			}
			return err
		}},
		{"restore", "restore", func(string) {}, func(key string) error {
			l := Letter{&notice.Notice{Key: key, Made: notice.MadeAt(time.Now()), Due: time.Now().Add(time.Hour)}, time.Time{}}
			r, err := s.Restore(ctx, partition, []Letter{l})
			if err != nil || !r[0].Created {
				t.Errorf("restored: %+v, %v", r, err)
			}
			return r[0].Err
		}},

		{"settle", "settle", func(key string) { plain.put(t, Request{Key: key}) }, func(key string) error {
			d, err := s.Settle(ctx, partition, []Settlement{{Claim: plain.take(t, key, "y"), Ending: EndDelivered}})
			if len(d) != 1 || d[0].Stale {
				t.Errorf("settled: %+v", d)
			}
			return err
		}},
	}
	for i, w := range writes {
		key := func(n int) string { return fmt.Sprintf("app1:a:b:%d-%d", i, n) }
		for n := range 3 {
			w.before(key(n))
		}
		if err := w.do(key(0)); err != nil {
			t.Errorf("%s, a replica there: %v", w.name, err)
		}
		reported[w.op] = 0
		s = hasty
		replica.Pause()
		if err := w.do(key(1)); !errors.Is(err, wire.ErrUnconfirmed) || errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("%s, the replica stopped: %v", w.name, err)
		}
		if reported[w.op] != 1 {
			t.Errorf("%s: %d unconfirmed notices were reported, want 1", w.name, reported[w.op])
		}
		s = patient
		replica.Unpause()
		if err := w.do(key(2)); err != nil {
			t.Errorf("%s, the replica back: %v", w.name, err)
		}
	}
	// What differs is an answer for itself: nothing was to be written.
	s = hasty
	replica.Pause()
	r, err := s.Schedule(ctx, partition, []Request{{Key: "app1:a:b:1-0", Content: body("another")}})
	if err != nil || r[0].Err != nil || len(r[0].Differs) == 0 {
		t.Errorf("a conflict: %+v, %v", r, err)
	}
	replica.Unpause()
}

// One wait confirms all calls that come during another wait. A claim at the same time does not wait
// for it.
func TestWaitsAreSharedAndHoldUpNothingElse(t *testing.T) {
	master, replica := replicated(t)
	s := confirmingOn(t, wire.Address{URL: master.URL()}, wire.Confirm{Durability: notice.Durability{Replicas: 1}, Timeout: 20 * time.Second})
	s.put(t, Request{Key: "app1:a:b:0"}) // knows the scripts
	const n = 200
	before := calls(t, master, "wait")
	replica.Pause()
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for i := range n {
		wg.Go(func() {
			r, err := s.Schedule(t.Context(), partition, []Request{{Key: fmt.Sprintf("app1:a:b:x%d", i), Delay: time.Hour}})
			if err == nil {
				err = r[0].Err
			}
			errs <- err
		})
	}
	awaitBlocked(t, master, wire.WaitingConns)
	// While all that may wait do: a claim has its answer.
	if c := s.take(t, "app1:a:b:0", "t"); c.Key == "" {
		t.Error("nothing is claimed")
	}
	if len(errs) > 0 {
		t.Errorf("a call was answered while the replica was stopped: %v", <-errs)
	}
	replica.Unpause()
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The first few alone, and the others by 64.
	if w := calls(t, master, "wait") - before; w > wire.WaitingConns+n/wire.MaxPipelined+8 {
		t.Errorf("%d waits for %d calls", w, n)
	}
	if k := master.Client().HLen(t.Context(), "notifier:{0}:records:"+prefix).Val(); k != n+1 {
		t.Errorf("%d records, want %d", k, n+1)
	}
}

// A canceled caller, a restarted Redis, and a Redis that does not know the script any more.
func TestConfirmedCallsFailAsOthersDo(t *testing.T) {
	t.Parallel()
	master, replica := replicated(t)
	s := confirmingOn(t, wire.Address{URL: master.URL()}, wire.Confirm{Durability: notice.Durability{Replicas: 1}, Timeout: 20 * time.Second})
	s.put(t, Request{Key: "app1:a:b:0", Delay: time.Hour})
	if err := master.Client().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if r := s.put(t, Request{Key: "app1:a:b:1", Delay: time.Hour}); r.Err != nil || !r.Created {
		t.Errorf("after SCRIPT FLUSH: %+v", r)
	}
	replica.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Schedule(ctx, partition, []Request{{Key: "app1:a:b:2", Delay: time.Hour}})
		done <- err
	}()
	awaitBlocked(t, master, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller has gone: %v", err)
	}
	replica.Unpause()
	master.Kill()
	if _, err := s.Schedule(t.Context(), partition, []Request{{Key: "app1:a:b:3"}}); !errors.Is(err, wire.ErrUnavailable) || errors.Is(err,
		wire.ErrUnconfirmed) {
		t.Errorf("without a server: %v", err)
	}
}

// A user without the right to WAIT has the write, and an error that names the missing right.
func TestWithoutTheRightToWait(t *testing.T) {
	t.Parallel()
	master, _ := replicated(t)
	if err := master.Client().Do(t.Context(), "ACL", "SETUSER", "svc", "on", ">pw", "~*", "&*", "+@all", "-wait").Err(); err != nil {
		t.Fatal(err)
	}
	s := confirmingOn(t, wire.Address{URL: strings.Replace(master.URL(), "redis://", "redis://svc:pw@", 1)},
		wire.Confirm{Durability: notice.Durability{Replicas: 1}})
	r := s.put(t, Request{Key: "app1:a:b:0", Delay: time.Hour})
	if !errors.Is(r.Err, wire.ErrUnconfirmed) || !strings.Contains(r.Err.Error(), "NOPERM") || !r.Created {
		t.Errorf("%+v", r)
	}
}

// A server without a reliable WAITAOF confirms nothing unless it syncs before each answer.
func TestFsyncWithoutWaitAOF(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config []string
		good   bool
	}{
		"always":   {[]string{"appendonly yes", "appendfsync always"}, true},
		"everysec": {[]string{"appendonly yes", "appendfsync everysec"}, false},
		"none":     {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := testkit.StartRedis(t, testkit.WithConfig(c.config...))
			if info, err := srv.Client().Info(t.Context(), "server").Result(); err != nil {
				t.Fatal(err)
			} else if wire.WaitsForDisk(info) {
				c.good = c.good || name == "everysec" // which WAITAOF waits for
				if name == "none" {
					s := confirmingOn(t, wire.Address{URL: srv.URL()}, wire.Confirm{Durability: notice.Durability{Fsync: true}})
					if r := s.put(t, Request{Key: "app1:a:b:0"}); !errors.Is(r.Err, wire.ErrUnconfirmed) {
						t.Errorf("%+v", r)
					}
					return
				}
			}
			s := confirmingOn(t, wire.Address{URL: srv.URL()}, wire.Confirm{Durability: notice.Durability{Fsync: true}, Timeout: 5 * time.Second})
			r, err := s.Schedule(t.Context(), partition, []Request{{Key: "app1:a:b:0"}})
			if c.good && (err != nil || r[0].Err != nil) || !c.good && (!errors.Is(err, wire.ErrNotSynced) || errors.Is(err, wire.ErrUnavailable)) {
				t.Errorf("%+v, %v", r, err)
			}
			if n := srv.Client().HLen(t.Context(), "notifier:{0}:records:"+prefix).Val(); (n == 1) != c.good {
				t.Errorf("%d records", n)
			}
			if err := wire.Synced(t.Context(), srv.Client()); (err == nil) != c.good {
				t.Errorf("synced: %v", err)
			}
		})
	}
}

// The wait goes to the node that took the write, also where the slot has moved.
func TestConfirmedWritesFollowASlotThatMoves(t *testing.T) {
	ctx := t.Context()
	slot := 13907 // CLUSTER KEYSLOT 0
	a, b := testkit.StartCluster(t, slot)
	for _, n := range []*testkit.Redis{a, b} {
		for name, v := range map[string]string{"appendonly": "yes", "appendfsync": "always"} {
			if err := n.Client().ConfigSet(ctx, name, v).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := confirmingOn(t, wire.Address{Mode: "cluster", URL: "redis://" + a.Addr()}, wire.Confirm{Durability: notice.Durability{Fsync: true},
		Timeout: 10 * time.Second})
	s.put(t, Request{Key: "app1:a:b:1", Delay: time.Hour})
	moveSlot(t, slot, a, b)
	if r := s.put(t, Request{Key: "app1:a:b:2", Delay: time.Hour}); r.Err != nil || !r.Created {
		t.Errorf("%+v", r)
	}
	if n := b.Client().Exists(ctx, "notifier:{0}:confirmed").Val(); n != 1 || calls(t, b, "eval") == 0 {
		t.Error("the new node was not waited for")
	}
}
