package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// maxAttempts is the ladder's length. Expired leases count as attempts.
const maxAttempts = 4

// settlement is a settle call that may have to be repeated.
type settlement struct {
	ending store.Ending
	after  when
	used   int
	notice *notice.Notice
	push   *notice.Push
	held   notice.Held // the reason of a postponement
}

func (w *world) job(t *rapid.T, may func(*job) bool) (*instance, *job) {
	in := pick(t, "instance", w.instances)
	var jobs []*job
	for _, j := range in.jobs {
		if may(j) {
			jobs = append(jobs, j)
		}
	}
	return in, pick(t, "claim", jobs)
}

// handle runs a handler.
func (w *world) handle(t *rapid.T) {
	in, j := w.job(t, func(j *job) bool { return j.stage == claimed && !j.awaits && j.used+j.lapses < maxAttempts })
	w.ran(t, in, j)
}

func (w *world) ran(t *rapid.T, in *instance, j *job) {
	j.stage = failed
	if rapid.Bool().Draw(t, "succeeds") {
		j.stage = succeeded
		w.succeeded[j.body] = true
	}
	w.say("%s has handled key %d, body %d: %s", in.id, j.key, j.body, map[stage]string{failed: "failed", succeeded: "succeeded"}[j.stage])
}

// settle writes the outcome of a claim, or repeats a settle whose reply was lost.
func (w *world) settle(t *rapid.T) {
	in, j := w.job(t, func(*job) bool { return true })
	e := j.end
	if e == nil {
		e = w.outcome(t, j)
	}
	w.end(t, in, j, e, drawFate(t))
}

// outcome draws the outcome of a claim.
func (w *world) outcome(t *rapid.T, j *job) *settlement {
	n := *j.claim.Notice
	n.Attempts = slices.Clone(n.Attempts)
	e := &settlement{notice: &n, after: []when{soon, later}[rapid.IntRange(0, 1).Draw(t, "after")]}
	if !j.awaits {
		for range j.lapses {
			n.Add(notice.Attempt{Number: n.AttemptsMade + 1, At: n.Due, Reason: notice.ReasonInterrupted})
		}
	}
	n.AwaitsReport = false
	switch {
	case j.stage == succeeded:
		n.Add(notice.Attempt{Number: n.AttemptsMade + 1, At: n.Due, Status: 200})
		e.ending = store.EndDelivered
	case j.stage == failed:
		n.Add(notice.Attempt{Number: n.AttemptsMade + 1, At: n.Due, Status: 500, Reason: notice.ReasonTimeout})
		if e.ending = store.EndRetry; rapid.IntRange(0, 2).Draw(t, "is refused for good") == 2 {
			e.ending, n.Reason = store.EndDead, notice.ReasonGone
		}
	case j.awaits:
		e.ending = store.EndRetry
	default:
		if e.ending = store.EndDeferred; rapid.Bool().Draw(t, "is postponed") {
			e.ending, e.held = store.EndPostponed, rapid.SampledFrom(notice.Helds[:]).Draw(t, "held by")
		}
	}
	if e.ending != store.EndDelivered && n.AttemptsMade >= maxAttempts {
		e.ending, n.Reason = store.EndDead, notice.ReasonTimeout
	}
	e.used = n.AttemptsMade
	return e
}

// hand gives a notice to a consumer.
func (w *world) hand(t *rapid.T) {
	in, j := w.job(t, func(j *job) bool {
		return j.stage == claimed && !j.awaits && j.used+j.lapses < maxAttempts && j.end == nil
	})
	w.handOver(t, in, j, drawFate(t))
}

func (w *world) handOver(t *rapid.T, in *instance, j *job, f fate) {
	n := *j.claim.Notice
	n.Attempts = slices.Clone(n.Attempts)
	for range j.lapses + 1 {
		n.Add(notice.Attempt{Number: n.AttemptsMade + 1, At: n.Due, Reason: notice.ReasonInterrupted})
	}
	n.AwaitsReport = true
	e := &settlement{ending: store.EndHanded, used: n.AttemptsMade, notice: &n,
		after: []when{soon, later}[rapid.IntRange(0, 1).Draw(t, "report within")]}
	e.push = &notice.Push{Key: list, Entry: []string{entry{key: j.key, body: j.body, attempt: e.used}.text()}}
	w.end(t, in, j, e, f)
}

func (w *world) end(t *rapid.T, in *instance, j *job, e *settlement, f fate) {
	w.say("%s settles key %d, token %s: %s, due %s%s", in.id, j.key, j.token, e.ending, e.after, f)
	c := j.claim
	c.Notice = e.notice
	w.wire.lose(f)
	out, err := in.store.Settle(w.ctx, j.at(), []store.Settlement{{Claim: c, Ending: e.ending, After: e.after.delay(), Push: e.push,
		Held: e.held, Death: w.death(j.key, j.body, e.used)}})
	answered := w.sent(f, err)
	if answered {
		in.jobs = slices.DeleteFunc(in.jobs, func(o *job) bool { return o == j })
	} else {
		j.stage, j.end = unanswered, e
	}
	if f == requestLost {
		return
	}
	w.ended(t, j, e, out)
}

// ended records a settle in the model.
func (w *world) ended(t *rapid.T, j *job, e *settlement, out []store.Settled) {
	n := &w.notes[j.key]
	taken := n.settles(j)
	if e.ending != store.EndHanded || !taken {
		w.free(j.key, j.at(), j.token)
		defer func() { w.wake(j.at()) }()
	}
	if out != nil && out[0].Stale == taken {
		t.Fatalf("key %d is %s: stale %v, want %v", j.key, n, out[0].Stale, !taken)
	}
	if !taken {
		return
	}
	n.used, n.awaits = e.used, false
	switch e.ending {
	case store.EndDelivered:
		w.ends(j.key, notice.EndDelivered)
		w.leave(j.key)
		n.settle(notice.Delivered)
	case store.EndDead:
		w.ends(j.key, notice.EndDead)
		w.addDeath(w.death(j.key, j.body, e.used))
		if w.order != block {
			w.leave(j.key)
		}
		n.settle(notice.Dead)
	case store.EndRetry, store.EndDeferred, store.EndPostponed:
		n.schedule(&w.scores, e.after)
		if n.heldBy = e.held; e.ending == store.EndPostponed {
			n.dueIs = 0 // the record keeps its due time
		}
		w.arm(j.key, e.after, strconv.Itoa(n.used+1), false)
	case store.EndHanded:
		n.late = !n.held()
		n.score, n.lapses, n.lasts, n.awaits = w.scores.fresh(), 1, e.after == later, true
		n.holder = reportToken(n)
		w.mark(j.key, j.at(), n.holder, n.lasts)
		n.timer = false
		n.writes++
		w.list = append(w.list, entry{key: j.key, body: j.body, attempt: e.used, made: j.made})
	}
	if e.after == soon && e.ending != store.EndDelivered && e.ending != store.EndDead {
		w.passShort()
	}
}

// die ends an instance at its present point, and starts another one.
func (w *world) die(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	var where []string
	for _, j := range in.jobs {
		where = append(where, fmt.Sprintf("with key %d %s", j.key, j.stage))
	}
	if len(in.called) > 0 {
		where = append(where, "before a claim's reply")
	}
	if where == nil {
		t.SkipNow() // see deploy
	}
	w.say("%s dies, %s", in.id, strings.Join(where, ", "))
	w.dead = append(w.dead, in.id)
	*in = *w.newInstance(t)
}

// takeEntry has a consumer pop the list's first entry and handle it.
func (w *world) takeEntry(t *rapid.T) {
	if len(w.list) == 0 {
		t.SkipNow()
	}
	e := w.list[0]
	got, err := w.plain.LPop(w.ctx, list).Result()
	if err != nil || got != e.text() {
		t.Fatalf("the list's first is %q, want %q; %v", got, e.text(), err)
	}
	w.list = w.list[1:]
	e.handled = rapid.Bool().Draw(t, "succeeds")
	if e.handled {
		w.succeeded[e.body] = true
	}
	w.say("consumer takes key %d, body %d, attempt %d: succeeds %v", e.key, e.body, e.attempt, e.handled)
	if rapid.IntRange(0, 4).Draw(t, "dies") > 0 {
		w.taken = append(w.taken, &e)
		if rapid.Bool().Draw(t, "reads at once") {
			w.readFor(t, &e)
		}
	}
}

// lookUp reads the notice of an entry, as a report does first.
func (w *world) lookUp(t *rapid.T) {
	w.readFor(t, pick(t, "entry", w.taken))
}

func (w *world) readFor(t *rapid.T, e *entry) {
	in := w.any(t)
	w.lose(t, arrives)
	found, err := in.store.Find(w.ctx, in.route(), w.key(e.key))
	w.wire.lose(arrives)
	n := &w.notes[e.key]
	if (err != nil) != (n.state == "") {
		t.Fatalf("find key %d, %s: %v", e.key, n, err)
	}
	if err == nil && found.Route != n.under {
		t.Fatalf("find key %d, %s: found under the route %s", e.key, n, found.Route)
	}
	over := n.pending() && !n.awaits // as after a resend, which makes no attempt
	if err != nil || found.Made != e.made || found.AttemptsMade != e.attempt || over {
		w.say("consumer reports on key %d, body %d, attempt %d: it is another now", e.key, e.body, e.attempt)
		return
	}
	w.say("consumer's report on key %d, body %d, attempt %d reads the record", e.key, e.body, e.attempt)
	e.found, e.score = &found, n.score
}

// report settles the notice of an entry that lookUp has read, perhaps again. Any step may
// run between the two.
func (w *world) report(t *rapid.T) {
	e := pick(t, "entry", slices.DeleteFunc(slices.Clone(w.taken), func(e *entry) bool { return e.found == nil }))
	if rapid.Bool().Draw(t, "for the last time") {
		w.taken = slices.DeleteFunc(w.taken, func(o *entry) bool { return o == e })
	}
	found, n := e.found, &w.notes[e.key]
	f := drawFate(t)
	x := *found.Notice
	x.AwaitsReport = false
	end := &settlement{ending: store.EndDelivered, used: x.AttemptsMade, notice: &x, after: later}
	switch {
	case !e.handled && x.AttemptsMade >= maxAttempts:
		end.ending, x.Reason = store.EndDead, notice.ReasonRejected
	case !e.handled:
		end.ending = store.EndRetry
	}
	w.say("consumer reports on key %d, body %d, attempt %d: %s%s", e.key, e.body, e.attempt, end.ending, f)
	token := "report:" + strconv.FormatInt(int64(found.Made), 10) + ":" + strconv.Itoa(found.AttemptsMade)
	c := store.Reported(*found)
	c.Notice = &x
	in := w.any(t)
	w.wire.lose(f)
	out, err := in.store.Settle(w.ctx, keys.Partition{Prefix: found.Route, Shard: found.Shard},
		[]store.Settlement{{Claim: c, Ending: end.ending, After: end.after.delay(), Death: w.death(e.key, e.body, end.used)}})
	w.sent(f, err)
	if f == requestLost {
		return
	}
	if n.held() && n.holder == token && n.body != e.body {
		t.Fatalf("the report on body %d settles body %d", e.body, n.body)
	}
	w.ended(t, &job{key: e.key, under: found.Route, place: found.Shard, token: token, body: e.body, made: found.Made, score: e.score}, end,
		out)
}

// read stores the state of a delivered notice for a late report.
func (w *world) read(t *rapid.T) {
	k, n := w.draw(t)
	if n.state != notice.Delivered {
		t.SkipNow()
	}
	w.readToReopen(t, k)
}

func (w *world) readToReopen(t *rapid.T, k int) {
	n := &w.notes[k]
	in := w.any(t)
	w.lose(t, arrives)
	f, err := in.store.Find(w.ctx, in.route(), w.key(k))
	w.wire.lose(arrives)
	if err != nil || f.State != notice.Delivered {
		t.Fatalf("find key %d, %s: %v, %v", k, n, f.State, err)
	}
	w.say("a late nack reads key %d", k)
	w.reopen = append(w.reopen, reopening{k, n.writes, f})
}

func (w *world) reopenRead(t *rapid.T) { w.nack(t, pick(t, "read", w.reopen)) }

// nack sends a late nack of a notice as it was read.
func (w *world) nack(t *rapid.T, r reopening) {
	n := &w.notes[r.key]
	x := *r.found.Notice
	ending, after := store.EndRetry, []when{soon, later}[rapid.IntRange(0, 1).Draw(t, "after")]
	if rapid.Bool().Draw(t, "ends it") {
		ending, x.Reason = store.EndDead, notice.ReasonRejected
	}
	f := drawFate(t)
	in := w.any(t)
	w.say("the nack reopens key %d: %s, due %s%s", r.key, ending, after, f)
	w.wire.lose(f)
	c, err := in.store.Reopen(w.ctx, r.found, store.Settlement{Claim: store.Claim{Notice: &x}, Ending: ending, After: after.delay(),
		Death: w.death(r.key, n.body, x.AttemptsMade)})
	answered := w.sent(f, err)
	if f == requestLost {
		return
	}
	done := n.state == notice.Delivered && n.writes == r.writes && n.made == r.found.Made && n.under == r.found.Route &&
		n.place == r.found.Shard && !n.away
	if answered && c.Done != done {
		t.Fatalf("reopen of %s: done %v, want %v", n, c.Done, done)
	}
	if !done {
		return
	}
	defer func() { w.wake(n.at()) }()
	if ending == store.EndDead {
		w.ends(r.key, notice.EndDead)
		w.addDeath(w.death(r.key, n.body, x.AttemptsMade))
		n.settle(notice.Dead)
		if w.order == block {
			w.join(r.key, 0, 0)
		}
		return
	}
	n.schedule(&w.scores, after)
	w.arm(r.key, after, "0", false)
	if w.order == block {
		w.keep(r.key, r.found.Due.UnixMilli())
	} else {
		w.join(r.key, 0, 0)
	}
	if after == soon {
		w.passShort()
	}
}

func (w *world) touch(t *rapid.T) {
	k, n := w.draw(t)
	w.say("the timer of key %d is touched", k)
	left, err := w.store.Timers.Touch(w.ctx, []string{w.key(k)})
	want := 0
	if w.kind == adoption && w.timers[k].there || w.kind != adoption && n.state == notice.Scheduled && n.lapses == 0 && n.far && n.timer {
		want = 1
	}
	if err != nil || left.Left != want || left.Missed != 0 {
		t.Fatalf("touch of key %d, %s: %+v timers are left, want %d; %v", k, n, left, want, err)
	}
}

func (w *world) flush(t *rapid.T) {
	w.say("scripts are flushed")
	if err := w.plain.ScriptFlush(w.ctx).Err(); err != nil {
		t.Fatal(err)
	}
}

func (w *world) trim(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "now") > 0 {
		t.SkipNow()
	}
	if w.kind == reshards {
		w.trimPlace(t)
		return
	}
	var list []store.Trim
	for _, p := range w.under {
		list = append(list, store.Trim{Prefix: p, Young: time.Hour})
	}
	n, _, err := w.store.Trim(w.ctx, 0, list, mostKeys)
	if err != nil || n != 0 {
		t.Fatalf("%d were forgotten before their time, %v", n, err)
	}
}
