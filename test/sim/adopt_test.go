package sim

import (
	"context"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// following is a look of an adopter at timers that is under way.
type following struct {
	t        *rapid.T
	heard    map[int]told
	compared bool                    // timers are looked at because their notices miss them
	asked    bool                    // a call of the API asks
	ops      map[int]store.Operation // that must follow from the last look
	begun    bool                    // something has come between its scripts
}

// adoptStore stands between an adopter and its store: it compares what the adopter
// sees, decides and does with the model, and lets others do something between its
// scripts.
type adoptStore struct {
	*store.Store
	w  *world
	in *instance
}

// Strays begins the comparison.
func (s *adoptStore) Strays(ctx context.Context, p keys.Partition, cursor string) ([]string, string, error) {
	w := s.w
	w.following.compared = true
	ks, next, err := s.Store.Strays(ctx, p, cursor)
	if err != nil {
		return ks, next, err
	}
	for k := range w.notes {
		n, tm := &w.notes[k], &w.timers[k]
		if want := n.timed() && n.far && (!tm.there || tm.eternal); slices.Contains(ks, key(k)) != want {
			w.t.Fatalf("key %d, %s, with the timer %+v: compared %v, want %v", k, n, *tm, !want, want)
		}
	}
	return ks, next, nil
}

// expiredSince is within how many ms a script that began before a key expired has
// ended, also on a busy machine.
const expiredSince = 1000

// Peek looks, and says what must follow from it.
func (s *adoptStore) Peek(ctx context.Context, p keys.Partition, ks []string, most int64) (time.Time, []store.Seen, int, error) {
	w := s.w
	if len(w.following.ops) > 0 {
		w.t.Fatalf("%s has done nothing of %v", s.in.id, w.following.ops)
	}
	now, seen, looked, err := s.Store.Peek(ctx, p, ks, most)
	if err != nil {
		return now, seen, looked, err
	}
	for _, name := range ks[:looked] {
		k := int(name[len(name)-1] - '0')
		alive := w.timers[k].alive(now.UnixMilli())
		if !alive && w.timers[k].there { // keys expire by the time at which the script began, and it tells the one when it asked
			alive = slices.ContainsFunc(seen, func(is store.Seen) bool {
				return is.Key == name && is.Length != store.NoKey && now.UnixMilli()-is.Expire < expiredSince
			})
		}
		if op := w.decide(k, w.following.heard[k], alive); op != "" {
			w.following.ops[k] = op
		}
	}
	return now, seen, looked, nil
}

// decide is what must be done about a key's timer.
func (w *world) decide(k int, h told, alive bool) store.Operation {
	n, tm := &w.notes[k], w.timers[k]
	if !alive || tm.eternal {
		gone := h.removed || alive && (h.event || n.adopted) || w.following.compared && !h.expired && n.adopted
		switch {
		case gone && n.timed() && n.far:
			return store.OpCancel
		case h.event && h.expired && n.timed() && n.far && !alive:
			return store.OpMove // its owner has shortened its life
		}
		return ""
	}
	ours := tm.value == "0" || tm.value == strconv.Itoa(n.used+1)
	same := tm.value == n.text()
	moved := tm.at != 0 && float64(tm.at+1) != n.stands
	switch {
	case n.state == "" || !n.timed() || !ours && !same:
		return store.OpAdopt
	case !moved:
		return ""
	case ours && !same && (h.value == "set" || h.value == "set and expire"):
		return store.OpAdopt // an event says that it is a value
	case ours && !same && w.following.asked:
		return "" // its event will say whether it is one
	case ours || n.used == 0:
		return store.OpMove
	}
	return store.OpAdopt
}

// standing is what an adoption must find as it was seen.
type standing struct {
	score  float64
	made   notice.Made
	length int64
	value  string
	expire int64
}

func (w *world) standing(ctx context.Context, k int) (is standing, now int64) {
	n := &w.notes[k]
	is.made, is.length, is.expire = n.made, store.NoKey, -1
	at, err := w.plain.Time(ctx).Result()
	if err != nil {
		w.t.Fatalf("ask for the time: %v", err)
	}
	is.score = w.plain.ZScore(ctx, space.Shadow(partition), key(k)).Val()
	if v, err := w.plain.Get(ctx, key(k)).Result(); err == nil {
		is.value, is.length = v, int64(len(v))
		if d := w.plain.PExpireTime(ctx, key(k)).Val(); d > 0 {
			is.expire = d.Milliseconds()
		}
	}
	return is, at.UnixMilli()
}

// Adopt is the second script.
func (s *adoptStore) Adopt(ctx context.Context, p keys.Partition, list []store.Adoption) ([]bool, error) {
	w, f := s.w, s.w.following
	ops := f.ops
	f.ops = map[int]store.Operation{}
	seen := map[int]standing{}
	for i := range list {
		a := &list[i]
		k := int(a.Key[len(a.Key)-1] - '0')
		if ops[k] != a.Op {
			w.t.Fatalf("key %d, %s, with the timer %+v, told %+v: %s is to be done, want %q", k, &w.notes[k], w.timers[k], f.heard[k], a.Op, ops[k])
		}
		delete(ops, k)
		seen[k] = standing{score: w.notes[k].stands, made: w.notes[k].made, length: a.Length, value: string(a.Value), expire: a.Expire}
	}
	if len(ops) > 0 {
		w.t.Fatalf("%s does nothing of %v", s.in.id, ops)
	}
	s.meanwhile()
	want, filled, at := map[int]bool{}, map[int]bool{}, map[int]int64{}
	for i := range list {
		a := &list[i]
		k := int(a.Key[len(a.Key)-1] - '0')
		n := &w.notes[k]
		is, now := w.standing(ctx, k)
		gone := is.length == store.NoKey && seen[k].expire > 0 && now > seen[k].expire
		timer := is.length == seen[k].length && is.value == seen[k].value && (is.expire == seen[k].expire || is.length == store.NoKey)
		notice := is.score == seen[k].score && is.made == seen[k].made
		want[k] = notice && (timer || gone && a.Op == store.OpAdopt)
		if !want[k] && a.Op == store.OpAdopt && gone && n.lost && n.pending() && !n.held() { // its event was first
			want[k], filled[k] = true, true
		}
		at[k] = now
	}
	before := w.wire.count()
	done, err := s.Store.Adopt(ctx, p, list)
	if w.wire.count() == before {
		return done, err
	}
	for i := range list {
		a := &list[i]
		k := int(a.Key[len(a.Key)-1] - '0')
		if err == nil && done[i] != want[k] {
			w.t.Fatalf("key %d, %s: %s done %v, want %v", k, &w.notes[k], a.Op, done[i], want[k])
		}
		if want[k] {
			w.adopted(k, a, at[k], filled[k])
		}
	}
	return done, err
}

// adopted writes a step of an adoption into the model.
func (w *world) adopted(k int, a *store.Adoption, ms int64, filled bool) {
	n := &w.notes[k]
	due := later
	if a.Expire+1 <= ms {
		due = now
	}
	w.say("\t%s: key %d, %s, due %s", map[store.Operation]string{store.OpAdopt: "adopted", store.OpMove: "moved",
		store.OpCancel: "cancelled"}[a.Op], k, n, due)
	switch a.Op {
	case store.OpCancel:
		writes := n.writes
		w.ends(k, notice.EndCancelled)
		n.settle(notice.Cancelled)
		n.writes = writes
		return
	case store.OpAdopt:
		body, _ := strconv.Atoi(string(a.Value))
		if !filled {
			w.replaced(k)
		}
		*n = note{under: prefix, body: body, adopted: true, made: n.made, writes: n.writes}
		n.schedule(&w.scores, due)
		made := w.madeOf(k)
		if made <= n.made {
			w.t.Fatalf("what was adopted was made at %d, and the one before it at %d", made, n.made)
		}
		n.made = made
	default:
		n.schedule(&w.scores, due)
	}
	if due == later {
		n.due = a.Expire + 1
		n.stands = float64(n.due)
	}
}

// Schedule makes a notice of a timer that has expired.
func (s *adoptStore) Schedule(ctx context.Context, p keys.Partition, reqs []store.Request) ([]store.Reply, error) {
	w := s.w
	s.meanwhile()
	before := w.wire.count()
	out, err := s.Store.Schedule(ctx, p, reqs)
	if w.wire.count() == before {
		return out, err
	}
	for i := range reqs {
		k := int(reqs[i].Key[len(reqs[i].Key)-1] - '0')
		n := &w.notes[k]
		if err == nil && out[i].Created != (n.state == "") {
			w.t.Fatalf("key %d, %s, whose timer has expired: %+v", k, n, out[i])
		}
		if n.state == "" {
			w.say("\tadopted: key %d, without a body", k)
			*n = note{under: prefix, lost: true, writes: n.writes}
			n.schedule(&w.scores, now)
			n.made = w.madeOf(k)
		}
	}
	return out, err
}

// meanwhile lets others do something between two scripts of an adoption.
func (s *adoptStore) meanwhile() {
	w, f := s.w, s.w.following
	if f.begun || w.nested {
		return
	}
	f.begun, w.nested = true, true
	defer func() { w.nested = false }()
	fate, skip := w.wire.hold()
	defer func() { w.wire.loseAfter(skip, fate) }()
	do := w.amid
	w.amid = nil
	if do == nil {
		do = pick(f.t, "meanwhile", []func(){nil, nil, nil, func() { w.setTimer(f.t) }, func() { w.changeTimer(f.t) }, func() { w.schedule(f.t) },
			func() { w.amend(f.t) }, func() { w.claim(f.t) }, func() {
				in := pick(f.t, "instance", w.instances)
				if in != s.in {
					w.hears(f.t, in, len(in.events))
				}
			}})
	}
	if do != nil {
		w.say("\tmeanwhile:")
		do()
		w.look()
	}
}
