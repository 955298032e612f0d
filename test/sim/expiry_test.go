package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// In worlds of one prefix, of sequences and of moves, some notices expire. Those that expire early have done so before the
// next step; they are claimed by any call all the same, because the service, not the scripts, refuses to attempt them. The
// index of each partition must have the entries of its pending notices that expire, and no others.

// life says when a notice expires.
type life int

const (
	endless  life = iota
	over          // it has expired
	expiring      // it expires after this run
)

func (l life) String() string { return [...]string{"", ", expired", ", expires in 3 h"}[l] }

// after returns how long after its due time a notice of this life expires.
func (l life) after() time.Duration { return []time.Duration{0, short, 3 * long}[l] }

// lifeOf returns the life of a notice that a call schedules.
func lifeOf(after time.Duration) life {
	switch after {
	case 0:
		return endless
	case short:
		return over
	}
	return expiring
}

// ends reports whether notices of the world expire.
func (k kind) ends() bool { return k == onePrefix || k == sequences || k == moves }

// mortal reports whether notices expire in the worlds of a mutation. In those of the others they would only delay its fault.
func (m mutation) mortal() bool {
	return m.name == "" || slices.ContainsFunc(expiryMutations, func(o mutation) bool { return o.name == m.name })
}

// drawLife draws the life of a new notice; most are endless. One that is due in an hour cannot have expired.
func (w *world) drawLife(t *rapid.T, x when) life {
	switch {
	case !w.mortal:
		return endless
	case x == later:
		return []life{endless, expiring}[rapid.IntRange(0, 1).Draw(t, "life")]
	}
	return []life{endless, endless, over, expiring}[rapid.IntRange(0, 3).Draw(t, "life")]
}

// refused turns the refusal of a call whose notice would have expired into no error, and fails if there is one without need or none
// where one is needed. Unanswered calls have other errors.
func (w *world) refused(n *note, changes bool, err error) error {
	if is := errors.Is(err, store.ErrExpires); is != (changes && n.life == over) && (err == nil || is) {
		w.t.Fatalf("a change of %s: %v", n, err)
	} else if is {
		return nil
	}
	return err
}

// expire has an instance claim the expired notices of a partition.
func (w *world) expire(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	c, f := w.newCall(t, in), arrives
	if c.limit = w.keyCount; w.order == unordered {
		f = drawFate(t)
	} else {
		c.lasts = true
	}
	w.say("%s claims what has expired%s, lease %s, token %s%s", in.id, w.where(c.at()), c.leaseText(), c.token, f)
	w.wire.lose(f)
	got, err := in.store.Sweep(w.ctx, c.at(), c.lease(), store.SweepOptions{Expired: true, Limit: c.limit})
	if !w.sent(f, err) {
		in.called = append(in.called, c)
	}
	if f == requestLost {
		return
	}
	won, lost := w.won(got, f == arrives), 0
	for k := range w.notes {
		n := &w.notes[k]
		listed := c.has(n) && n.pending() && n.life == over && !n.watched
		wins := listed && !n.held()
		if _, is := won[k]; f == arrives && is != wins {
			t.Fatalf("key %d is %s: claimed as expired %v, want %v", k, n, is, wins)
		}
		switch {
		case wins:
			w.takeExpired(t, in, k, c, won[k])
		case listed:
			n.watched = true
			lost++
		}
	}
	if f == arrives && got.Lost != lost {
		t.Fatalf("%d expired notices are in flight, want %d", got.Lost, lost)
	}
	if !c.lasts {
		w.passShort()
	}
}

// takeExpired records in the model that an instance has claimed a notice because it has expired. On an ordered route it takes no part in
// its sequence, and the instance settles it at once.
func (w *world) takeExpired(t *rapid.T, in *instance, k int, c call, got *store.Claim) {
	if w.order == unordered {
		w.take(t, in, k, c, got, false)
		return
	}
	n := &w.notes[k]
	j := &job{key: k, under: c.under, token: c.token, body: n.body, made: n.made, used: n.used, before: n.score, lapses: n.lapses,
		awaits: n.awaits, claim: *got, stage: failed}
	n.claim(&w.scores, c.token, c.lasts)
	n.waits, n.outlasts, j.score = false, false, n.score
	in.jobs = append(in.jobs, j)
	w.endAsDead(t, in, j, arrives)
}

// compareExpiring compares the indexes of the notices that expire with the model.
func (w *world) compareExpiring() {
	if !w.mortal {
		return
	}
	for _, under := range w.under {
		is := map[string]int64{}
		entries, err := w.plain.ZRangeWithScores(w.ctx, space.Expiring(at(under)), 0, -1).Result()
		if err != nil {
			w.t.Fatalf("read the notices that expire under %s: %v", under, err)
		}
		for _, e := range entries {
			is[e.Member.(string)] = int64(e.Score)
		}
		want := map[string]int64{}
		for k := range w.notes {
			if n := &w.notes[k]; n.pending() && n.life != endless && n.under == under {
				want[w.key(k)] = w.expiryOf(k, is[w.key(k)])
			}
		}
		if !maps.Equal(is, want) {
			w.t.Fatalf("the notices that expire under %s are %v, want %v", under, is, want)
		}
	}
}

// expiryOf returns the score that key k's entry must have. entry is the one that it has, Unix ms.
func (w *world) expiryOf(k int, entry int64) int64 {
	n := &w.notes[k]
	is, err := notice.Decode(w.key(k), n.under, w.recordOf(k))
	if err != nil {
		w.t.Fatalf("key %d: %v", k, err)
	}
	now, at := w.clock(), is.Expires.UnixMilli()
	if (n.life == over) != !is.Expires.After(now) {
		w.t.Fatalf("key %d must be %s; it expires at %s, now is %s", k, n, is.Expires, now)
	}
	if n.watched && entry > now.UnixMilli() {
		return entry
	}
	return at
}

// expiryMutations are wrong lines in the code for notices that expire. No notice of a world expires while it is postponed or parked:
// TestMatrixFindsMutants of internal/store has the mutants that only those show.
var expiryMutations = []mutation{
	{"a retry does not list that the notice expires", "if #watched > 0 then call('ZADD', expiring, unpack(watched)) end", "", ""},
}
