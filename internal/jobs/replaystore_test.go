package jobs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// replayWorld is a store on its own database, with the sender of replays.
type replayWorld struct {
	t   *testing.T
	srv *testkit.Redis
	s   ReplayStore
}

func newReplayWorld(t *testing.T, change func(o *store.Options)) *replayWorld {
	t.Helper()
	srv := testkit.SharedRedis(t)
	o := store.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Prefixes: []string{prefix},
		Retention: time.Hour, Retain: 1000}
	if change != nil {
		change(&o)
	}
	s := store.New(o)
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &replayWorld{t, srv, ReplayStore{s}}
}

func (w *replayWorld) put(key, text string, how store.Duplicate) {
	w.t.Helper()
	r := store.Request{Key: key, OnDuplicate: how, Content: notice.Content{Body: []byte(text)}}
	if got, err := w.s.Schedule(w.t.Context(), partition, []store.Request{r}); err != nil || !got[0].Created {
		w.t.Fatalf("%+v, %v", got, err)
	}
}

// settle claims a notice where it is, and settles it.
func (w *replayWorld) settle(key string, ending store.Ending) {
	w.t.Helper()
	at, err := w.s.Where(w.t.Context(), []string{key})
	if err != nil {
		w.t.Fatal(err)
	}
	p := keys.Partition{Prefix: prefix, Shard: at[0]}
	c, err := w.s.ClaimKeys(w.t.Context(), p, store.Lease{Token: rand.Text(), For: time.Minute}, []string{key})
	if err != nil || len(c.Won) != 1 {
		w.t.Fatalf("%+v, %v", c, err)
	}
	if _, err := w.s.Settle(w.t.Context(), p, []store.Settlement{{Claim: c.Won[0], Ending: ending}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *replayWorld) find(key string) store.Found {
	w.t.Helper()
	f, err := w.s.Find(w.t.Context(), prefix, key)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// item returns a replay item of a notice in its current state.
func (w *replayWorld) item(key string) Item {
	f := w.find(key)
	return Item{Number: 1, Notice: &notice.Notice{Key: key, Route: prefix, Made: f.Made, Content: f.Content}}
}

func (w *replayWorld) reshard(n int) {
	w.t.Helper()
	if err := w.s.Layout.Announce(w.t.Context(), w.s.Space().Replace(n, false)); err != nil {
		w.t.Fatal(err)
	}
}

// replay replays one item, and compares its result.
func (w *replayWorld) replay(p Part, it Item, want string) {
	w.t.Helper()
	if got, err := w.s.Replay(w.t.Context(), p, []Item{it}); err != nil || got[0].Result != want {
		w.t.Errorf("%s: %+v, %v; want %q", it.Key, got, err, want)
	}
}

func TestReplaySkipsItemsThatAreDone(t *testing.T) {
	t.Parallel()
	w := newReplayWorld(t, nil)
	const sent, waits = "app1:a:b:sent", "app1:a:b:waits"
	w.put(sent, "1", "")
	w.put(waits, "1", "")
	w.settle(sent, store.EndDelivered)
	before, old := Part{Mark: "before"}, w.item(sent)
	w.replay(before, old, Sent)
	w.settle(sent, store.EndDelivered)

	w.reshard(3)
	now, of := Part{Mark: "now", Shard: w.s.Space().Shard(waits)}, w.item(waits)
	w.replay(now, of, Pending)
	w.settle(waits, store.EndDelivered)
	if r, err := w.s.Replay(t.Context(), before, []Item{old}); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("an item of an old shard: %+v, %v", r, err)
	}
	w.replay(now, of, "")
	for _, k := range []string{sent, waits} {
		if f := w.find(k); f.State != notice.Delivered {
			t.Errorf("%s is %s", k, f.State)
		}
	}
}

// During a reshard a replay answers as after it: it sends a dead letter again, and leaves a
// pending notice, each in one place.
func TestReplayDuringReshard(t *testing.T) {
	t.Parallel()
	w := newReplayWorld(t, nil)
	const dead, pending = "app1:a:b:dead", "app1:a:b:pending"
	w.put(dead, "1", "")
	w.put(pending, "1", "")
	w.settle(dead, store.EndDead)
	w.reshard(3)
	for key, want := range map[string]string{dead: Sent, pending: Pending} {
		shard := w.s.Space().Shard(key)
		w.replay(Part{Mark: key, Shard: shard}, w.item(key), want)
		places := 0
		for place := range w.s.Space().Places() {
			if w.srv.Client().HExists(t.Context(), w.s.Space().Records(keys.Partition{Prefix: prefix, Shard: place}), key).Val() {
				places++
			}
		}
		if f := w.find(key); f.State != notice.Scheduled || places != 1 {
			t.Errorf("%s is %s, in %d places", key, f.State, places)
		}
	}
}

// After Redis has lost the moves of a reshard, a replay finds the pending notice in its old
// shard again.
func TestReplayFindsNoticesAfterRedisLostTheirMove(t *testing.T) {
	t.Parallel()
	w := newReplayWorld(t, nil)
	const key = "app1:a:b:1"
	w.put(key, "1", "")
	it := w.item(key)
	w.reshard(3)
	lose := w.srv.Snapshot(t, "*")
	if _, _, err := w.s.Layout.MoveOut(t.Context(), partition, w.s.Space().Shard(key), []string{key}); err != nil {
		t.Fatal(err)
	}
	if left, err := w.s.Layout.Drained(t.Context(), nil); err != nil || left > 0 {
		t.Fatal(left, err)
	}
	lose()
	w.replay(Part{Mark: "r", Shard: w.s.Space().Shard(key)}, it, Pending)
}

func TestReplayLeavesADeadLetterOfAnotherNotice(t *testing.T) {
	t.Parallel()
	w := newReplayWorld(t, nil)
	const key = "app1:a:b:1"
	w.put(key, "1", "")
	it := w.item(key)
	w.settle(key, store.EndDelivered)
	w.put(key, "2", store.Replace)
	w.settle(key, store.EndDead)
	w.replay(Part{Mark: "r"}, it, Dead)
	if f := w.find(key); f.State != notice.Dead || string(f.Body) != "2" {
		t.Errorf("%+v", f)
	}
}

// The user of Redis may not touch timers: the notices of a route with adoption are scheduled
// without them, and the replay has the result of each, so that none is sent again.
func TestReplayWithoutTheRightToSetTimers(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	c := srv.Client()
	if err := c.ACLSetUser(t.Context(), "svc", "on", ">password", "~"+srv.Namespace()+":*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: "redis://svc:password@" + srv.Addr() + "/0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	w := newReplayWorld(t, func(o *store.Options) {
		o.Client, o.Space.Namespace, o.Adopts = conn.Commander, srv.Namespace(), func(string) bool { return true }
	})
	var items []Item
	for i := range 2 {
		n := &notice.Notice{Key: fmt.Sprintf("app1:a:b:%d", i), Route: prefix, Made: 1000 + notice.Made(i)}
		items = append(items, Item{Number: int64(i + 1), Delay: time.Hour, Notice: n})
	}
	for call, want := range []string{Sent, ""} {
		r, err := w.s.Replay(t.Context(), Part{Mark: "r"}, items)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r {
			score := c.ZScore(t.Context(), w.s.Space().Shadow(partition), items[i].Key).Val()
			if r[i].Result != want || score == 0 || score == math.Trunc(score) {
				t.Errorf("call %d, item %d: %+v, want %q; its score is %f", call+1, i, r[i], want, score)
			}
		}
	}
}

func TestReplayIgnoresTombstones(t *testing.T) {
	t.Parallel()
	w := newReplayWorld(t, func(o *store.Options) { o.Retain, o.RepeatWindow, o.RepeatBytes = 1, time.Hour, 1<<20 })
	const key = "app1:a:b:1"
	w.put(key, "1", "")
	it := w.item(key)
	w.settle(key, store.EndDelivered)
	w.put("app1:a:b:2", "1", "")
	w.settle("app1:a:b:2", store.EndDelivered)
	if _, _, err := w.s.Trim(t.Context(), 0, []store.Trim{{Prefix: prefix}}, 10); err != nil {
		t.Fatal(err)
	}
	if n := w.srv.Client().ZCard(t.Context(), w.s.Space().Tombstones(0)).Val(); n != 1 {
		t.Fatalf("%d buckets of tombstones", n)
	}
	w.replay(Part{Mark: "r"}, it, Sent)
}

// unconfirmed counts notices without a confirmation.
type unconfirmed int

func (*unconfirmed) Failed(string, error)                   {}
func (*unconfirmed) Finalized(int, int)                     {}
func (u *unconfirmed) Unconfirmed(_ string, n int, _ error) { *u += unconfirmed(n) }
func (u *unconfirmed) ForeignKeys(string, int)              {}

// A replay waits for the durability that is set, and returns its answers also where that is
// not confirmed.
func TestReplayReportsUnconfirmedWrites(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t) // it has no replica
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var reported unconfirmed
	w := newReplayWorld(t, func(o *store.Options) {
		o.Client, o.Space.Namespace, o.Conn = conn.Commander, srv.Namespace(), conn
		o.Confirm = wire.Confirm{Durability: notice.Durability{Replicas: 1}, Timeout: 50 * time.Millisecond}
		o.Observer = &reported
	})
	it := Item{Number: 1, Notice: &notice.Notice{Key: "app1:a:b:1", Route: prefix, Made: notice.MadeAt(time.Now())}}
	got, err := w.s.Replay(t.Context(), Part{Mark: "r"}, []Item{it})
	if !errors.Is(err, wire.ErrUnconfirmed) || len(got) != 1 || got[0].Result != Sent || reported != 1 {
		t.Errorf("%+v, %v; %d reported", got, err, reported)
	}
}

// FuzzReplies: whatever Redis replies, a call returns.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{200, 3, 0, 5, 0, 1, 100, 4})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, a := testkit.Answers(t, b)
		s := ReplayStore{store.New(store.Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}, Prefixes: []string{prefix}})}
		a.Learning = []string{prefix}
		if err := s.Layout.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.Learning, a.Rest = nil, b
		n := notice.Notice{Key: "app1:a:b:1", Route: prefix, Made: notice.MadeAt(time.Now())}
		_, _ = s.Replay(t.Context(), Part{Mark: "m"}, []Item{{Number: 1, Notice: &n}, {Number: 2,
			Result: Gone}}) // an error is as good as a reply
	})
}

// A replayed notice joins its sequence at its new due time. A dead letter that holds back its successors keeps its position.
func TestReplayInASequence(t *testing.T) {
	t.Parallel()
	const replayed, waits = "app1:a:b:1", "app1:a:c:1"
	for _, x := range []struct {
		members []string
		ending  store.Ending
		newIDs  bool
		first   string
	}{
		{[]string{prefix}, store.EndDead, false, waits},
		{[]string{prefix}, store.EndDelivered, false, waits},
		{[]string{prefix, prefix + store.Blocks}, store.EndDead, false, replayed},
		{[]string{prefix, prefix + store.Blocks}, store.EndDead, true, replayed},
		{[]string{prefix, prefix + store.Blocks}, store.EndDelivered, false, waits},
	} {
		w := newReplayWorld(t, nil)
		if err := w.s.Layout.AddOrdered(t.Context(), x.members); err != nil {
			t.Fatal(err)
		}
		w.put(replayed, "1", "")
		w.settle(replayed, x.ending)
		w.put(waits, "1", "")
		it := w.item(replayed)
		it.Delay = time.Second
		w.replay(Part{Mark: "r", NewIDs: x.newIDs}, it, Sent)

		is, err := testkit.ReadSequences(t.Context(), w.srv.Client(), w.s.Space().Base(partition.Shard), partition.Prefix)
		if err != nil || len(is.Members) != 2 || !strings.HasSuffix(is.Members[0], " "+x.first) {
			t.Errorf("%+v: the sequence is %q, %v", x, is.Members, err)
		}
	}
}

// A dead letter that moves to a longer prefix with its replay keeps its position there.
func TestReplayMovesThePositionOfADeadLetter(t *testing.T) {
	t.Parallel()
	const replayed, waits, to = "app1:a:b:1", "app1:a:c:1", "app1:a"
	w := newReplayWorld(t, func(o *store.Options) { o.Prefixes = []string{prefix, to} })
	if err := w.s.Layout.AddOrdered(t.Context(), []string{prefix, prefix + store.Blocks, to}); err != nil {
		t.Fatal(err)
	}
	w.put(replayed, "1", "")
	w.settle(replayed, store.EndDead)
	it := w.item(replayed)
	if _, err := w.s.Schedule(t.Context(), keys.Partition{Prefix: to}, []store.Request{{Key: waits}}); err != nil {
		t.Fatal(err)
	}
	it.Route = to
	w.replay(Part{Mark: "r"}, it, Sent)

	is, err := testkit.ReadSequences(t.Context(), w.srv.Client(), w.s.Space().Base(partition.Shard), to)
	if err != nil || len(is.Members) != 2 || !strings.HasSuffix(is.Members[0], " "+replayed) {
		t.Errorf("the sequence is %q, %v", is.Members, err)
	}
}
