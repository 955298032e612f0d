package sim

import (
	"slices"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// In every world operators resend notices. A resend writes only if the notice is delivered or dead, its record is the one
// that was read, so that the ending which the operator saw is the current one, and no producer's timer has the key. Then the
// notice is due now with its id and attempts, and its ladder starts again. A repeated resend finds another record.

// resending is a notice as the call of a resend has read it.
type resending struct {
	key    int
	record string // in Redis
	found  store.Found
}

func (w *world) resendActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"read to resend": func(t *rapid.T) { k, _ := w.draw(t); w.readToResend(t, k) },
		"resend":         func(t *rapid.T) { w.resendRead(t, pick(t, "resend", w.resends)) },
		"resend at once": w.resendAtOnce,
	}
}

// recordOf reads the record of a key where the model has it.
func (w *world) recordOf(k int) string {
	text, err := w.plain.HGet(w.ctx, w.layouts[len(w.layouts)-1].Records(w.notes[k].at()), w.key(k)).Result()
	if err != nil && err != redis.Nil {
		w.t.Fatalf("read the record of key %d: %v", k, err)
	}
	return text
}

// readToResend: the call of a resend reads a notice of any state. The service checks that the notice is delivered or dead
// before it sends the script; here the script alone must do so.
func (w *world) readToResend(t *rapid.T, k int) {
	in, n := w.any(t), &w.notes[k]
	if n.state == "" || n.away {
		t.SkipNow()
	}
	w.lose(t, arrives)
	f, err := in.store.Find(w.ctx, in.route(), w.key(k))
	w.wire.lose(arrives)
	if err != nil || f.Made != n.made || f.State != n.public() {
		t.Fatalf("find key %d, %s: %s, %v", k, n, f.State, err)
	}
	w.say("a resend reads key %d, %s, ending %d", k, n, f.Ending())
	if w.resends = append(w.resends, resending{k, w.recordOf(k), f}); len(w.resends) > 4 {
		w.resends = slices.Clone(w.resends[1:])
	}
}

// resendAtOnce resends a delivered or dead notice, with nothing in between.
func (w *world) resendAtOnce(t *rapid.T) {
	state := []notice.State{notice.Delivered, notice.Dead}[rapid.IntRange(0, 1).Draw(t, "state")]
	var ended []int
	for k := range w.keyCount {
		if w.notes[k].state == state {
			ended = append(ended, k)
		}
	}
	w.readToResend(t, pick(t, "ended", ended))
	w.resendRead(t, w.resends[len(w.resends)-1])
}

// resendRead sends the script of a resend, once or again: since the read anything may have happened.
func (w *world) resendRead(t *rapid.T, r resending) {
	in, f, n := w.any(t), drawFate(t), &w.notes[r.key]
	if r.found.Shard >= in.store.Space().Places() {
		t.SkipNow() // an instance resends what it has read itself, so it knows the shard
	}
	w.pass(w.claimedAt) // in the same ms it would have the score that the claim found
	w.say("key %d, as it was read with ending %d, is resent%s; there is %s%s", r.key, r.found.Ending(), w.by(in), n, f)
	ended := n.state == notice.Delivered || n.state == notice.Dead
	current := n.made == r.found.Made && n.under == r.found.Route && n.place == r.found.Shard && !n.away
	if ended && current {
		current = w.recordOf(r.key) == r.record
	}
	may := ended && current && !(w.kind == adoption && w.timers[r.key].there)
	done := may && n.life != over

	w.wire.lose(f)
	c, err := in.store.Resend(w.ctx, r.found, notice.Expiry{})
	answered := w.sent(f, w.refused(n, may, err))
	if f == requestLost {
		return
	}
	if answered && c.Done != done {
		t.Fatalf("resend of %s, read as %s: done %v, want %v", n, r.found.State, c.Done, done)
	}
	if !done {
		return
	}
	stays := n.state == notice.Dead && w.order == block
	n.schedule(&w.scores, now)
	w.arm(r.key, now, "0", false)
	if stays {
		w.keep(r.key, r.found.Due.UnixMilli())
	} else {
		w.join(r.key, 0, 0)
	}
	w.wake(n.at())
	w.compareResent(t, &r)
}

// compareResent compares the record of a notice that was just resent with the one that was read.
func (w *world) compareResent(t *rapid.T, r *resending) {
	is, err := notice.Decode(w.key(r.key), r.found.Route, w.recordOf(r.key))
	if err != nil {
		t.Fatalf("key %d: %v", r.key, err)
	}
	was, ending := r.found.Notice, r.found.Ending()
	if is.ID() != was.ID() || is.AttemptsMade != was.AttemptsMade || len(is.Attempts) != len(was.Attempts) ||
		string(is.Body) != string(was.Body) {
		t.Fatalf("key %d was resent as %+v, and read as %+v", r.key, is, was)
	}
	if is.Redriven != was.AttemptsMade || is.Endings != ending || is.Resent != ending || is.Resend != was.Resend+1 || is.Reason != "" {
		t.Fatalf("key %d, ending %d, was resent with ladder from %d, endings %d, resent after %d, resend %d, reason %q", r.key, ending,
			is.Redriven, is.Endings, is.Resent, is.Resend, is.Reason)
	}
}
