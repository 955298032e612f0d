package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// The nodes of a cluster lose writes separately. Here each place is a node: its keys are
// restored to an earlier state, and all other keys stay. The store sends the scripts of a
// cluster.
//
// The model of one note cannot predict the combined result of two nodes. So the promises
// are checked at the end, after a repeated reshard. A notice that was outside a place when
// the place lost writes is neither lost nor delivered twice. Each notice is in one place,
// and none is delivered early.

// parted is one run with places that lose writes separately.
type parted struct {
	*lab
	t       *rapid.T
	ctx     context.Context
	order   order // of the route: unordered or skip
	stores  []*store.Store
	facts   map[string]*fact
	batches []*batch
	saved   map[int]*node
	serial  int
}

// fact is the reference model of a notice.
type fact struct {
	far       bool // it is due in an hour
	delivered int
	again     int  // how often a place that has held the notice lost writes
	mayBeGone bool // a place that has held the notice lost writes
}

// node is the saved state of a place.
type node struct {
	dump []any
	seen map[string]bool // the notices that the place has held since
}

var (
	dumpPlace = redis.NewScript(`
local reply = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  reply[#reply + 1] = key
  reply[#reply + 1] = redis.call('DUMP', key)
end
return reply`)
	loadPlace = redis.NewScript(`
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end
for i = 2, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end
return redis.status_reply('OK')`)
)

func TestReshardOverNodesThatLoseWritesSeparately(t *testing.T) {
	l, begun, want := newLab(t, reshards, mutation{}), time.Now(), *stepsFlag/20
	from := seed(*seedFlag)
	l.repeat(t, from, want, 30*time.Second, l.part)
	summarize(&summary.lines,
		"- %d steps in worlds of reshards whose places lose writes separately, from seed %d on, in %.0f s: nothing found.",
		l.steps, from, time.Since(begun).Seconds())
}

// part runs the steps of one run.
func (l *lab) part(rt *rapid.T) {
	w := &parted{lab: l, t: rt, ctx: context.Background(), facts: map[string]*fact{}, saved: map[int]*node{}}
	if err := l.plain.FlushDB(w.ctx).Err(); err != nil {
		rt.Fatal(err)
	}
	for range 2 {
		w.stores = append(w.stores, w.newStore())
	}
	if w.order = pick(rt, "order", []order{unordered, skip}); w.order != unordered {
		if err := w.stores[0].Layout.AddOrdered(w.ctx, []string{prefix}); err != nil {
			rt.Fatal(err)
		}
		w.say("the route is ordered")
	}
	rt.Repeat(map[string]func(*rapid.T){
		"":         func(t *rapid.T) { w.t = t; w.steps++; w.note(); w.claimable(); w.members() },
		"schedule": w.schedule,
		"deliver":  func(t *rapid.T) { w.deliver(pick(t, "instance", w.stores), w.place(t)) },
		"announce": w.announce,
		"move out": w.moveOut,
		"move in":  w.moveIn,
		"move end": w.moveEnd,
		"finish":   w.finish,
		"move all": func(t *rapid.T) { w.moveAll(pick(t, "instance", w.stores)) },
		"begin":    func(t *rapid.T) { w.stores[rapid.IntRange(0, 1).Draw(t, "instance")] = w.newStore() },
		"save":     w.save,
		"forget":   w.forget,
	})
	w.end()
}

func (w *parted) say(format string, args ...any) { w.t.Logf(format, args...) }

func (w *parted) newStore() *store.Store {
	now, _, err := store.Discover(w.ctx, w.client, keys.Space{Namespace: space.Namespace}, true)
	if err != nil {
		w.t.Fatal(err)
	}
	s := store.New(store.Options{Client: w.client, Space: now, Cluster: true, Prefixes: w.under, Retention: time.Hour, Retain: 1000})
	if err := s.Layout.Learn(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// now are the places there are.
func (w *parted) now() keys.Space {
	now, _, err := store.Discover(w.ctx, w.plain, keys.Space{Namespace: space.Namespace}, true)
	if err != nil {
		w.t.Fatal(err)
	}
	return now
}

func (w *parted) place(t *rapid.T) int {
	return rapid.IntRange(0, w.now().Places()-1).Draw(t, "place")
}

// lie returns the keys in a place, and the keys exported from the place.
func (w *parted) lie(place int) (here, away []string) {
	now := w.now()
	here, err := w.plain.HKeys(w.ctx, now.Records(keys.Partition{Prefix: prefix, Shard: place})).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := w.plain.HKeys(w.ctx, now.Moving(place)).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	return here, slices.DeleteFunc(all, func(k string) bool { return k == "" })
}

// note adds the present keys of each saved place to the keys that the place has held.
func (w *parted) note() {
	for p, n := range w.saved {
		here, away := w.lie(p)
		for _, k := range append(here, away...) {
			n.seen[k] = true
		}
	}
}

// claimable fails if a notice is claimable in two places, unless a place that has held the
// notice lost writes.
func (w *parted) claimable() {
	ks := slices.Sorted(maps.Keys(w.facts))
	counts, err := claimableIn(w.ctx, ks, w.plain)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, k := range ks {
		if counts[i] > 1 && w.facts[k].again == 0 {
			w.t.Fatalf("%s is claimable in %d places", k, counts[i])
		}
	}
}

// members checks the sequences in each place.
func (w *parted) members() {
	if err := checkMembers(w.ctx, w.plain, w.now(), w.order); err != nil {
		w.t.Fatal(err)
	}
}

func (w *parted) schedule(t *rapid.T) {
	s := pick(t, "instance", w.stores)
	w.serial++
	k, far := "sim:a:b:"+strconv.Itoa(w.serial), rapid.IntRange(0, 2).Draw(t, "due") == 2
	if w.order != unordered {
		k = fmt.Sprintf("sim:a:b:O%d~%d", w.serial%3, w.serial) // of one of three sequences
	}
	r := store.Request{Key: k, Content: notice.Content{Body: []byte("1")}}
	if far {
		r.Delay = long
	}
	out, err := s.Schedule(w.ctx, s.Space().Partition(prefix, k), []store.Request{r})
	if err == nil {
		err = out[0].Err
	}
	if err != nil || !out[0].Created {
		t.Fatalf("schedule %s: %v", k, err)
	}
	w.facts[k] = &fact{far: far}
	w.say("%s is scheduled, due in an hour %v", k, far)
	w.note()
}

// deliver claims and delivers due notices of a place.
func (w *parted) deliver(s *store.Store, place int) (n int) {
	if place >= s.Space().Places() {
		return 0
	}
	w.serial++
	p := keys.Partition{Prefix: prefix, Shard: place}
	got, err := s.Sweep(w.ctx, p, store.Lease{Token: "t" + strconv.Itoa(w.serial), For: long}, store.SweepOptions{Limit: 3})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range got.Won {
		f := w.facts[c.Key]
		if f.far {
			w.t.Fatalf("%s is delivered an hour early", c.Key)
		}
		f.delivered++
		w.say("%s is delivered in place %d", c.Key, place)
		out, err := s.Settle(w.ctx, p, []store.Settlement{{Claim: c, Ending: store.EndDelivered}})
		if err != nil || out[0].Stale {
			w.t.Fatalf("settle %s: %+v, %v", c.Key, out, err)
		}
	}
	return len(got.Won)
}

func (w *parted) announce(t *rapid.T) {
	s := pick(t, "instance", w.stores)
	if w.now().First() > 3 {
		t.SkipNow()
	}
	next := s.Space().Replace(rapid.IntRange(1, 3).Draw(t, "shards"), false)
	if err := s.Layout.Announce(w.ctx, next); err != nil {
		if !errors.Is(err, wire.ErrUnavailable) {
			t.Fatal(err)
		}
		return // another reshard came first
	}
	w.say("shards %v are in the place of %v", next.Tags, next.Former)
}

func (w *parted) moveOut(t *rapid.T) {
	s := pick(t, "instance", w.stores)
	p := keys.Partition{Prefix: prefix, Shard: pick(t, "from", s.Layout.OldShards())}
	here, _ := w.lie(p.Shard)
	slices.Sort(here)
	to := s.Space().Shard(pick(t, "key", here))
	ks := slices.DeleteFunc(here, func(k string) bool { return s.Space().Shard(k) != to })
	l, _, err := s.Layout.MoveOut(w.ctx, p, to, ks)
	if err != nil && !errors.Is(err, store.ErrMoving) && !errors.Is(err, wire.ErrUnavailable) {
		t.Fatal(err)
	}
	if err == nil && l.Len() > 0 {
		w.say("batch %d leaves place %d for %d: %v", l.Number, p.Shard, to, ks)
		w.batches = append(w.batches, &batch{Moving: l, by: s})
	}
}

func (w *parted) moveIn(t *rapid.T) {
	b := pick(t, "batch", w.batches)
	if rapid.IntRange(0, 3).Draw(t, "for the last time") == 0 {
		w.batches = slices.DeleteFunc(w.batches, func(o *batch) bool { return o == b })
	}
	stay, err := b.by.Layout.MoveIn(w.ctx, b.Moving)
	if err != nil || len(stay) > 0 {
		t.Fatalf("%v stay, %v", stay, err)
	}
	b.arrived = true
	w.say("batch %d is brought to place %d", b.Number, b.To)
}

func (w *parted) moveEnd(t *rapid.T) {
	b := pick(t, "batch", slices.DeleteFunc(slices.Clone(w.batches), func(b *batch) bool { return !b.arrived }))
	if err := b.by.Layout.MoveEnd(w.ctx, b.Moving, nil); err != nil {
		t.Fatal(err)
	}
	w.say("batch %d of place %d is ended", b.Number, b.From.Shard)
}

func (w *parted) finish(t *rapid.T) {
	s, p := pick(t, "instance", w.stores), w.place(t)
	if err := s.Layout.Finish(w.ctx, min(p, s.Space().Places()-1)); err != nil && !errors.Is(err, wire.ErrUnavailable) {
		t.Fatal(err)
	}
}

func (w *parted) moveAll(s *store.Store) {
	from := move.On(s)
	m := move.Mover{From: from, To: from}
	r, err := m.Pass(w.ctx)
	if err != nil && !errors.Is(err, wire.ErrUnavailable) {
		w.t.Fatal(err)
	}
	w.say("%d are moved, old shards that may hold something: %v", r.Moved, s.Layout.OldShards())
}

// pattern matches the keys of a place.
func (w *parted) pattern(place int) string {
	return strings.NewReplacer("[", `\[`).Replace(w.now().Base(place)) + "*"
}

func (w *parted) save(t *rapid.T) {
	p := w.place(t)
	v, err := dumpPlace.Run(w.ctx, w.plain, nil, w.pattern(p)).Slice()
	if err != nil {
		t.Fatal(err)
	}
	w.say("place %d has written all so far to its disk", p)
	w.saved[p] = &node{v, map[string]bool{}}
	w.note()
}

// forget restores the saved state of a place. Notices that the place has held since may be
// lost, and may be delivered again.
func (w *parted) forget(t *rapid.T) {
	var list []int
	for p := range w.saved {
		list = append(list, p)
	}
	slices.Sort(list)
	p := pick(t, "node", list)
	w.note()
	n := w.saved[p]
	delete(w.saved, p)
	if err := loadPlace.Run(w.ctx, w.plain, nil, append([]any{w.pattern(p)}, n.dump...)...).Err(); err != nil {
		t.Fatal(err)
	}
	for k := range n.seen {
		w.facts[k].again++
		w.facts[k].mayBeGone = true
	}
	w.say("place %d has lost the writes since", p)
}

// end repeats the reshard, delivers due notices, and checks all promises.
func (w *parted) end() {
	for range 4 {
		for i := range w.stores {
			if err := w.stores[i].Layout.Spread(w.ctx); err != nil {
				w.t.Fatal(err)
			}
			w.moveAll(w.stores[i])
		}
		for p := range w.now().Places() {
			for w.deliver(w.stores[0], p) > 0 {
			}
		}
	}
	lies := map[string][]int{}
	for p := range w.now().Places() {
		here, away := w.lie(p)
		if len(away) > 0 || p < w.now().First() && len(here) > 0 {
			w.t.Fatalf("the reshard does not end: place %[2]d holds %[1]v, exported are %[3]v", here, p, away)
		}
		for _, k := range here {
			lies[k] = append(lies[k], p)
		}
	}
	for k, f := range w.facts {
		switch at := lies[k]; {
		case len(at) > 1:
			w.t.Fatalf("%s is in the places %v", k, at)
		case len(at) == 0 && !f.mayBeGone:
			w.t.Fatalf("%s is lost", k)
		case f.delivered > 1+f.again:
			w.t.Fatalf("%s is delivered %d times, after %d losses of writes", k, f.delivered, f.again)
		case len(at) == 1 && !f.far && f.delivered == 0:
			w.t.Fatalf("%s is due, in place %d, and not delivered", k, at[0])
		}
	}
}
