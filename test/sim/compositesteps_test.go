package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// edge has another instance try to claim a notice until its lease ends. No try may win
// before Redis's clock is past the last millisecond of the lease.
func (w *world) edge(t *rapid.T) {
	k, n := w.draw(t)
	if !w.ready(k) {
		t.SkipNow()
	}
	serving := w.serving(n)
	if len(serving) < 2 {
		t.SkipNow()
	}
	in, other := serving[0], serving[1]
	w.serial += 2
	first, second := call{under: n.under, place: n.place, token: fmt.Sprintf("%s-%d", in.id, w.serial-1)}, call{under: n.under, place: n.place,
		token: fmt.Sprintf("%s-%d", other.id, w.serial), lasts: true}
	w.say("%s claims key %d, lease 2 ms, token %s; %s asks until it wins, lease 1 h, token %s", in.id, k, first.token, other.id, second.token)
	var ends time.Time
	for _, c := range []call{first, second} {
		for begun := time.Now(); ; {
			got, err := in.store.ClaimKeys(w.ctx, n.at(), c.lease(), []string{w.key(k)})
			if err != nil || time.Since(begun) > 30*time.Second {
				t.Fatalf("claim: %v, %+v", err, got)
			}
			won := w.won(got, true)
			if won[k] == nil {
				continue
			}
			if !ends.IsZero() && got.Now.UnixMilli() <= ends.UnixMilli() {
				t.Fatalf("key %d is won at %d, but the first lease lasts until %d", k, got.Now.UnixMilli(), ends.UnixMilli())
			}
			ends = got.Now.Add(short)
			w.take(t, map[bool]*instance{false: in, true: other}[c.lasts], k, c, won[k], false)
			break
		}
	}
}

// oneMillisecond creates a notice that is due now, claims it and replaces it, so quickly
// that both notices may have the same score.
func (w *world) oneMillisecond(t *rapid.T) {
	k, _ := w.draw(t)
	in := pick(t, "instance", w.instances)
	replace := func() {
		w.bodies++
		w.send(t, in, k, store.Request{Key: w.key(k), OnDuplicate: store.Replace, Content: notice.Content{Body: []byte(strconv.Itoa(w.bodies))}},
			"schedules", arrives)
	}
	c := w.newCall(t, in)
	c.under, c.keys, c.lasts = in.route(), []int{k}, true
	replace()
	c.place = w.notes[k].place
	w.makeClaim(t, in, c, "claims", arrives)
	replace()
}

// work claims and settles a notice, with no other step in between.
func (w *world) work(t *rapid.T) {
	k, n := w.draw(t)
	if !w.ready(k) {
		t.SkipNow()
	}
	in := pick(t, "instance", w.serving(n))
	c := w.newCall(t, in)
	c.under, c.place, c.keys, c.lasts = n.under, n.place, []int{k}, true
	w.makeClaim(t, in, c, "claims", arrives)
	j := in.jobs[len(in.jobs)-1]
	switch {
	case j.awaits || j.used+j.lapses >= maxAttempts:
		w.end(t, in, j, w.outcome(t, j), arrives)
	case rapid.Bool().Draw(t, "hands over"):
		w.handOver(t, in, j, arrives)
	default:
		w.ran(t, in, j)
		w.end(t, in, j, w.outcome(t, j), arrives)
		if n.state == notice.Delivered && rapid.Bool().Draw(t, "is read") {
			w.readToReopen(t, k)
		}
	}
}

// handAnew replaces a notice that awaits a consumer's report, and hands the new notice to
// a consumer too.
func (w *world) handAnew(t *rapid.T) {
	e := pick(t, "entry", slices.DeleteFunc(slices.Clone(w.taken), func(e *entry) bool { return e.found == nil }))
	if in, j := w.renew(t, e.key); j != nil {
		w.handOver(t, in, j, arrives)
	}
}

// renew has an instance replace the notice of a key and claim the new one. The job is nil if the new
// notice is parked.
func (w *world) renew(t *rapid.T, k int) (*instance, *job) {
	in := pick(t, "instance", w.instances)
	w.bodies++
	w.send(t, in, k, store.Request{Key: w.key(k), OnDuplicate: store.Replace,
		Content: notice.Content{Body: []byte(strconv.Itoa(w.bodies))}}, "schedules", arrives)
	c := w.newCall(t, in)
	c.under, c.place, c.keys, c.lasts = in.route(), w.notes[k].place, []int{k}, true
	w.makeClaim(t, in, c, "claims", arrives)
	if w.notes[k].parked {
		return in, nil
	}
	return in, in.jobs[len(in.jobs)-1]
}

// nackAnew replaces a delivered notice that a late nack has read, delivers the new notice and sends the nack.
func (w *world) nackAnew(t *rapid.T) {
	r := pick(t, "read", w.reopen)
	in, j := w.renew(t, r.key)
	if j == nil {
		return
	}
	j.stage, w.succeeded[j.body] = succeeded, true
	w.end(t, in, j, w.outcome(t, j), arrives)
	w.nack(t, r)
}
