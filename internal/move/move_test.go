package move

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/tracing"
	"notifier/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "app1"

// open returns a server and a connection. Each call of more starts like a further instance.
func open(t *testing.T) (srv *testkit.Redis, conn *wire.Conn, more func() Redis) {
	t.Helper()
	srv = testkit.SharedRedis(t)
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	more = func() Redis {
		t.Helper()
		space, _, err := store.Discover(t.Context(), conn, keys.Space{Namespace: srv.Namespace()}, false)
		if err != nil {
			t.Fatal(err)
		}
		s := On(store.New(store.Options{Client: conn.Commander, Space: space, Prefixes: []string{prefix},
			Retention: time.Hour, Retain: 1000}))
		if err := s.Layout.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	return srv, conn, more
}

// fill creates n notices in four states. It returns the state of each, and the claims of the claimed
// ones.
func fill(t *testing.T, s Redis, n int) (states map[string]notice.State, claims []store.Claim) {
	t.Helper()
	states = map[string]notice.State{}
	for i := range n {
		key := fmt.Sprintf("app1:a:b:%d", i)
		p := s.Space().Partition(prefix, key)
		r := store.Request{Key: key, Content: notice.Content{Body: []byte("1")}}
		if i%4 == 0 {
			r.Delay = time.Hour
		}
		if _, err := s.Store.Schedule(t.Context(), p, []store.Request{r}); err != nil {
			t.Fatal(err)
		}
		states[key] = notice.Scheduled
		if i%4 == 0 {
			continue
		}
		c, err := s.Store.ClaimKeys(t.Context(), p, store.Lease{Token: "t", For: time.Minute}, []string{key})
		if err != nil || len(c.Won) != 1 {
			t.Fatal(c, err)
		}
		if i%4 == 1 {
			states[key], claims = notice.Claimed, append(claims, c.Won[0])
			continue
		}
		x := store.Settlement{Claim: c.Won[0], Ending: store.EndDelivered}
		if states[key] = notice.Delivered; i%4 == 2 {
			x.Ending, x.Claim.Reason, states[key] = store.EndDead, notice.ReasonGone, notice.Dead
		}
		if _, err := s.Store.Settle(t.Context(), p, []store.Settlement{x}); err != nil {
			t.Fatal(err)
		}
	}
	return states, claims
}

// fuse is a Redis that kills its mover before or right after a step.
type fuse struct {
	Redis
	left  int // steps up to the kill
	after bool
}

var errKilled = errors.New("killed")

// step runs f unless the mover is killed before.
func (k *fuse) step(f func() error) error {
	if k.left--; k.left > 0 {
		return f()
	}
	if k.left < 0 {
		panic("a step after the kill")
	}
	if k.after {
		if err := f(); err != nil {
			return err
		}
	}
	return errKilled
}

func (k *fuse) MoveOut(ctx context.Context, from keys.Partition, to int, ks []string) (b store.Moving, held store.Staying, err error) {
	err = k.step(func() (err error) {
		b, held, err = k.Redis.Layout.MoveOut(ctx, from, to, ks)
		return err
	})
	return b, held, err
}

func (k *fuse) MoveIn(ctx context.Context, b store.Moving) (stay []string, err error) {
	err = k.step(func() (err error) {
		stay, err = k.Redis.Layout.MoveIn(ctx, b)
		return err
	})
	return stay, err
}

func (k *fuse) MoveEnd(ctx context.Context, b store.Moving, stay []string) error {
	return k.step(func() error { return k.Redis.Layout.MoveEnd(ctx, b, stay) })
}

// A mover that is killed before or after any step leaves each notice in one place, in its state. The
// next mover finishes.
func TestKilledMoverLosesNothing(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n, whole := 1, false; !whole; n++ {
			t.Run(fmt.Sprintf("%d %t", n, after), func(t *testing.T) { whole = kill(t, n, after) })
		}
	}
}

// kill kills a mover at its n-th step. It returns true if the mover had finished before.
func kill(t *testing.T, n int, after bool) (whole bool) {
	srv, _, more := open(t)
	s := more()
	states, claims := fill(t, s, 24)
	if err := s.Layout.Announce(t.Context(), s.Space().Replace(3, false)); err != nil {
		t.Fatal(err)
	}
	k := &fuse{Redis: s, left: n, after: after}
	_, err := (&Mover{From: k, To: k}).Pass(t.Context())
	if err != nil && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	check(t, srv, more(), states, len(claims))
	end := more()
	if _, err := (&Mover{From: end, To: end}).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, srv, end, states, len(claims))
	if left := end.Layout.OldShards(); len(left) != 1 {
		t.Fatalf("killed at %d: old shards %v hold notices, want only the shard of the claimed ones", n, left)
	}
	for _, c := range claims {
		got, err := s.Store.Settle(t.Context(), c.Partition(), []store.Settlement{{Claim: c, Ending: store.EndDelivered}})
		if err != nil || got[0].Stale {
			t.Fatalf("killed at %d: a settle was stale: %+v, %v", n, got, err)
		}
		states[c.Key] = notice.Delivered
	}
	got, err2 := (&Mover{From: end, To: end}).Pass(t.Context())
	if err2 != nil || got.Moved != len(claims) || len(end.Layout.OldShards()) != 0 {
		t.Fatalf("killed at %d: %+v, %v, %v", n, got, end.Layout.OldShards(), err2)
	}
	check(t, srv, end, states, 0)
	if err == nil && n < 9 {
		t.Fatalf("only %d steps", n)
	}
	return err == nil
}

// check fails unless each notice is stored once, in the given state, and at least former of them in old
// shards.
func check(t *testing.T, srv *testkit.Redis, s Redis, states map[string]notice.State, former int) {
	t.Helper()
	for key, want := range states {
		f, err := s.Store.Find(t.Context(), prefix, key)
		if err != nil || f.State != want {
			t.Fatalf("%s: %+v, %v; want %s", key, f, err, want)
		}
	}
	records, pending, elsewhere := int64(0), int64(0), int64(0)
	for place := range s.Space().Places() {
		p := keys.Partition{Prefix: prefix, Shard: place}
		n := srv.Client().HLen(t.Context(), s.Space().Records(p)).Val()
		records += n
		pending += srv.Client().ZCard(t.Context(), s.Space().Shadow(p)).Val()
		if place < s.Space().First() {
			elsewhere += n
		}
	}
	want := int64(0)
	for _, state := range states {
		if state == notice.Scheduled || state == notice.Claimed {
			want++
		}
	}
	if records != int64(len(states)) || pending != want || elsewhere < int64(former) {
		t.Fatalf("%d records of %d, %d pending of %d, %d in old shards of %d", records, len(states), pending, want, elsewhere, former)
	}
}

// Concurrent movers complete the batches of one another.
func TestConcurrentMoversLoseNothing(t *testing.T) {
	t.Parallel()
	srv, _, more := open(t)
	s := more()
	states, claims := fill(t, s, 200)
	if err := s.Layout.Announce(t.Context(), s.Space().Replace(4, false)); err != nil {
		t.Fatal(err)
	}
	results := make(chan error)
	for range 4 {
		x := more()
		go func() {
			_, err := (&Mover{From: x, To: x}).Pass(t.Context())
			results <- err
		}()
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	check(t, srv, s, states, len(claims))
}

func reshard(t *testing.T, srv *testkit.Redis, conn *wire.Conn, to int) (Done, error) {
	t.Helper()
	return Reshard(t.Context(), Options{Conn: conn, Namespace: srv.Namespace(), To: to, Progress: logged{t}})
}

// A reshard moves the notices once. It finishes an interrupted one, and is refused while another runs.
func TestReshardMovesNoticesOnce(t *testing.T) {
	t.Parallel()
	srv, conn, more := open(t)
	if _, err := reshard(t, srv, conn, 2); !errors.Is(err, ErrRefused) {
		t.Errorf("no instance has started: %v", err)
	}
	s := more()
	states, claims := fill(t, s, 40)
	got, err := reshard(t, srv, conn, 6)
	if err != nil || !got.Changed || got.Moved != 30 || got.Held != len(claims) || got.Shards != 6 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err = reshard(t, srv, conn, 6); err != nil || got.Changed || got.Moved != 0 || got.Held != len(claims) {
		t.Errorf("again: %+v, %v", got, err)
	}
	// A reshard that was killed after it had announced its shards.
	if err := s.Layout.Announce(t.Context(), more().Space().Replace(4, false)); err == nil {
		t.Error("announced by an instance with an old layout")
	}
	if err := s.Layout.Spread(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Layout.Announce(t.Context(), s.Space().Replace(4, false)); err != nil {
		t.Fatal(err)
	}
	line, err := fleet.NewStore(s.Layout).Listen(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := line.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.hold(t.Context(), "other", time.Minute); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := reshard(t, srv, conn, 4); !errors.Is(err, ErrRefused) {
		t.Errorf("while another runs: %v", err)
	}
	if err := line.Close(); err != nil { // the other one is killed
		t.Fatal(err)
	}
	if got, err = reshard(t, srv, conn, 4); err != nil || got.Changed || got.Moved != 30 || got.Shards != 4 {
		t.Errorf("finished: %+v, %v", got, err)
	}
	check(t, srv, s, states, len(claims))
	if busy, err := s.IsHeld(t.Context()); busy || err != nil {
		t.Errorf("%t, %v", busy, err)
	}
}

// An instance without a heartbeat is found by its subscription to wake messages, also if no heartbeat
// can be read. Without subscribers no instance is alive, and the reshard runs.
func TestReshardRefusesUnidentifiedSubscribers(t *testing.T) {
	t.Parallel()
	srv, conn, more := open(t)
	s := more()
	c := srv.Client()
	old := c.Subscribe(t.Context(), s.Space().Wake())
	defer func() { _ = old.Close() }()
	if _, err := old.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		if _, err := reshard(t, srv, conn, 2); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", when, err)
		}
		if now := more().Space(); now.Places() != 1 {
			t.Fatalf("%s: %+v", when, now)
		}
	}
	refused("a subscriber without a heartbeat")
	if err := c.Set(t.Context(), s.Space().FleetSigns(), "not a sorted set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	refused("heartbeats cannot be read")
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "no instance is subscribed", func() bool {
		return c.PubSubNumSub(t.Context(), s.Space().Wake()).Val()[s.Space().Wake()] == 0
	})
	if got, err := reshard(t, srv, conn, 2); err != nil || !got.Changed {
		t.Errorf("no instance is alive: %+v, %v", got, err)
	}
}

// Each batch that moves notices has a span. A pass that finds nothing to move has none.
func TestMovedBatchHasSpan(t *testing.T) {
	t.Parallel()
	_, _, more := open(t)
	s := more()
	fill(t, s, 24)
	if err := s.Layout.Announce(t.Context(), s.Space().Replace(3, false)); err != nil {
		t.Fatal(err)
	}
	recorder := tracetest.NewSpanRecorder()
	mover := &Mover{From: s, To: s, Tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("t")}
	got, err := mover.Pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for _, span := range recorder.Ended() {
		for _, a := range span.Attributes() {
			if a.Key == tracing.Notices {
				moved += int(a.Value.AsInt64())
			}
		}
	}
	spans := len(recorder.Ended())
	if moved != got.Moved || moved == 0 {
		t.Errorf("spans of %d notices, %d moved", moved, got.Moved)
	}
	if _, err := mover.Pass(t.Context()); err != nil || len(recorder.Ended()) != spans {
		t.Errorf("a pass that moves nothing: %d more spans, %v", len(recorder.Ended())-spans, err)
	}
}
