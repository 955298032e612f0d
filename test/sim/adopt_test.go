package sim

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/intake"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// following is the state of a check of timers by an adopter.
type following struct {
	t     *rapid.T
	heard map[int]told
	asked bool                     // a call of the API started the check
	ops   map[int]intake.Operation // operations that must follow from the last Peek
	begun bool                     // another step has run between the scripts

	pass, next pass         // the running pass, and the pass after it
	later      map[int]bool // the keys that wait for another check, of those checked for a second time
}

// pass is the reason for which an adopter checks timers.
type pass int

const (
	byEvents pass = iota // or by a call of the API
	byScan
	secondly // see instance.first
)

// begin starts the next pass. The adopter has completed the running pass.
func (f *following) begin(in *instance) {
	f.end(in)
	f.pass, f.next = f.next, secondly
	f.later = map[int]bool{}
}

// end completes a pass. After a pass of second checks it removes the checked keys, except keys that need another check.
func (f *following) end(in *instance) {
	if f.pass == secondly {
		for k := range in.first {
			if !f.later[k] {
				delete(in.first, k)
			}
		}
	}
	f.pass = byEvents
}

// told returns the events of a key that the adopter knows in this pass.
func (f *following) told(in *instance, k int) told {
	if f.pass != secondly {
		return f.heard[k]
	}
	h := in.first[k]
	h.compared = true
	return h
}

// wait notes that the adopter checks a key again, whose timer has a certain expiry now.
func (f *following) wait(in *instance, k int, h told, expire int64) {
	h = in.first[k].then(h)
	h.expire = expire
	in.first[k] = h
	f.later[k] = true
}

// adoptStore wraps the store of an adopter. It compares the adopter's reads, decisions and
// writes with the model, and runs steps of other processes between the adopter's scripts.
type adoptStore struct {
	intake.Redis
	w  *world
	in *instance
}

// Timers marks the first check of each page as a scan.
func (s *adoptStore) Timers(ctx context.Context, masters func(context.Context, func(context.Context, redis.Cmdable) error) error,
	pattern string, n int64, f func(ctx context.Context, ks []string) error) error {
	return s.Redis.Timers(ctx, masters, pattern, n, func(ctx context.Context, ks []string) error {
		s.w.following.end(s.in)
		s.w.following.next = byScan
		return f(ctx, ks)
	})
}

// Where begins a pass: an adopter calls it before it checks keys.
func (s *adoptStore) Where(ctx context.Context, ks []string) ([]int, error) {
	s.w.following.begin(s.in)
	return s.Redis.Where(ctx, ks)
}

// Strays compares its result with the model.
func (s *adoptStore) Strays(ctx context.Context, p keys.Partition, cursor string) ([]string, string, error) {
	w := s.w
	w.following.end(s.in)
	w.following.next = secondly
	ks, next, err := s.Redis.Strays(ctx, p, cursor)
	if err != nil {
		return ks, next, err
	}
	for k := range w.notes {
		n, tm := &w.notes[k], &w.timers[k]
		if want := n.timed() && n.far && (!tm.there || tm.eternal); slices.Contains(ks, w.key(k)) != want {
			w.t.Fatalf("key %d, %s, with the timer %+v: compared %v, want %v", k, n, *tm, !want, want)
		}
	}
	return ks, next, nil
}

// expiredSince is the longest time in ms, also on a busy machine, between a key's expiry
// and the end of a script that began before the expiry.
const expiredSince = 1000

// Peek notes the operation that must follow from each timer it reads.
func (s *adoptStore) Peek(ctx context.Context, p keys.Partition, ks []string, most int64) (time.Time, []intake.Seen, int, error) {
	w := s.w
	if len(w.following.ops) > 0 {
		w.t.Fatalf("%s has done nothing of %v", s.in.id, w.following.ops)
	}
	now, seen, looked, err := s.Redis.Peek(ctx, p, ks, most)
	if err != nil {
		return now, seen, looked, err
	}
	for _, name := range ks[:looked] {
		k := int(name[len(name)-1] - '0')
		alive := w.timers[k].alive(now.UnixMilli())
		// A key expires by the time at which the script began. The script returns a later time.
		if !alive && w.timers[k].there {
			alive = slices.ContainsFunc(seen, func(is intake.Seen) bool {
				return is.Key == name && is.Length != intake.NoKey && now.UnixMilli()-is.Expire < expiredSince
			})
		}
		f := w.following
		h := f.told(s.in, k)
		switch op := w.decide(k, h, alive, now.UnixMilli()); op {
		case "":
		case opWait:
			f.wait(s.in, k, h, w.timers[k].at)
		default:
			f.ops[k] = op
		}
	}
	return now, seen, looked, nil
}

// opWait is a second check.
const opWait = intake.Operation("wait")

// lasting is the shortest life in ms of a timer that is checked a second time.
const lasting = 500

// decide returns the operation that a key's timer requires; empty means none.
func (w *world) decide(k int, h told, alive bool, ms int64) intake.Operation {
	n, tm := &w.notes[k], w.timers[k]
	if !alive || tm.eternal {
		gone := h.removed || alive && (h.event || n.adopted) || h.compared && !h.expired && n.adopted
		switch {
		case gone && n.timed() && n.far:
			return intake.OpCancel
		case h.event && h.expired && n.timed() && n.far && !alive:
			return intake.OpMove // the producer has shortened the timer
		}
		return ""
	}
	ours := tm.value == "0" || tm.value == strconv.Itoa(n.used+1)
	same := tm.value == n.text()
	moved := tm.at != 0 && float64(tm.at+1) != n.stands
	switch {
	case n.state == "" || !n.timed() || !ours && !same:
		return intake.OpAdopt
	case !moved:
		return ""
	case ours && !same && (h.value == "set" || h.value == "set and expire"):
		if tm.at > ms+lasting && tm.at != h.expire {
			return opWait // the event may be of the service's own timer, and the expiry's event still to come
		}
		return intake.OpAdopt // an event shows that a producer wrote the value
	case ours && !same && w.following.pass == byScan:
		return opWait
	case ours && !same && w.following.asked:
		return "" // the event, still to come, decides
	case ours || n.used == 0:
		return intake.OpMove
	}
	return intake.OpAdopt
}

// preconditions must still hold when the second script of an adoption runs.
type preconditions struct {
	score  float64
	made   notice.Made
	length int64
	value  string
	expire int64
}

func (w *world) preconditions(ctx context.Context, k int) (is preconditions, now int64) {
	n := &w.notes[k]
	is.made, is.length, is.expire = n.made, intake.NoKey, -1
	at, err := w.plain.Time(ctx).Result()
	if err != nil {
		w.t.Fatalf("ask for the time: %v", err)
	}
	is.score = w.plain.ZScore(ctx, space.Shadow(partition), w.key(k)).Val()
	if v, err := w.plain.Get(ctx, w.key(k)).Result(); err == nil {
		is.value, is.length = v, int64(len(v))
		if d := w.plain.PExpireTime(ctx, w.key(k)).Val(); d > 0 {
			is.expire = d.Milliseconds()
		}
	}
	return is, at.UnixMilli()
}

// Adopt runs the second script of an adoption and compares its result with the model.
func (s *adoptStore) Adopt(ctx context.Context, p keys.Partition, list []intake.Adoption) ([]bool, error) {
	w, f := s.w, s.w.following
	ops := f.ops
	f.ops = map[int]intake.Operation{}
	seen := map[int]preconditions{}
	for i := range list {
		a := &list[i]
		k := int(a.Key[len(a.Key)-1] - '0')
		if ops[k] != a.Op {
			w.t.Fatalf("key %d, %s, timer %+v, events %+v: operation %s, want %q", k, &w.notes[k], w.timers[k], f.told(s.in, k), a.Op, ops[k])
		}
		delete(ops, k)
		score := w.plain.ZScore(ctx, space.Shadow(partition), a.Key).Val() // a script of this check may have changed it
		seen[k] = preconditions{score: score, made: w.notes[k].made, length: a.Length, value: string(a.Value), expire: a.Expire}
	}
	if len(ops) > 0 {
		w.t.Fatalf("%s does none of the operations %v", s.in.id, ops)
	}
	s.interleave()
	want, filled, at := map[int]bool{}, map[int]bool{}, map[int]int64{}
	for i := range list {
		a := &list[i]
		k := int(a.Key[len(a.Key)-1] - '0')
		n := &w.notes[k]
		is, now := w.preconditions(ctx, k)
		gone := is.length == intake.NoKey && seen[k].expire > 0 && now > seen[k].expire
		timer := is.length == seen[k].length && is.value == seen[k].value && (is.expire == seen[k].expire || is.length == intake.NoKey)
		notice := is.score == seen[k].score && is.made == seen[k].made
		want[k] = notice && (timer || gone && a.Op == intake.OpAdopt)
		if !want[k] && a.Op == intake.OpAdopt && gone && n.lost && n.pending() && !n.held() { // the expired event came first
			want[k], filled[k] = true, true
		}
		at[k] = now
	}
	before := w.wire.count()
	done, err := s.Redis.Adopt(ctx, p, list)
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

// adopted records an operation of an adopter in the model.
func (w *world) adopted(k int, a *intake.Adoption, ms int64, filled bool) {
	n := &w.notes[k]
	due := later
	if a.Expire+1 <= ms {
		due = now
	}
	w.say("\t%s: key %d, %s, due %s", map[intake.Operation]string{intake.OpAdopt: "adopted", intake.OpMove: "moved",
		intake.OpCancel: "cancelled"}[a.Op], k, n, due)
	switch a.Op {
	case intake.OpCancel:
		writes := n.writes
		w.ends(k, notice.EndCancelled)
		w.leave(k)
		n.settle(notice.Cancelled)
		n.writes = writes
		w.wake(n.at())
		return
	case intake.OpAdopt:
		body, _ := strconv.Atoi(string(a.Value))
		if !filled {
			w.replaced(k)
		}
		*n = note{under: prefix, body: body, adopted: true, made: n.made, writes: n.writes}
		n.schedule(&w.scores, due)
		made := w.madeOf(k)
		if made <= n.made {
			w.t.Fatalf("the adopted notice has generation %d, its predecessor %d", made, n.made)
		}
		n.made = made
	default:
		n.schedule(&w.scores, due)
	}
	w.join(k, a.Expire+1, 0)
	w.wake(n.at())
	if due == later {
		n.due = a.Expire + 1
		n.stands = float64(n.due)
	}
}

// Schedule creates a notice for an expired timer, and records it in the model.
func (s *adoptStore) Schedule(ctx context.Context, p keys.Partition, reqs []store.Request) ([]store.Reply, error) {
	w := s.w
	s.interleave()
	before := w.wire.count()
	out, err := s.Redis.Schedule(ctx, p, reqs)
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
			w.join(k, 0, i+1)
			w.wake(n.at())
		}
	}
	return out, err
}

// interleave runs a step of another process between two scripts of an adoption.
func (s *adoptStore) interleave() {
	w, f := s.w, s.w.following
	if f.begun || w.nested {
		return
	}
	f.begun, w.nested = true, true
	defer func() { w.nested = false }()
	fate, skip := w.wire.hold()
	defer func() { w.wire.loseAfter(skip, fate) }()
	do := w.between
	w.between = nil
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
