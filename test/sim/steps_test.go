package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"notifier/internal/notice"
	"notifier/internal/store"
)

func (w *world) actions() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"":           func(t *rapid.T) { w.t = t; w.look() },
		"schedule":   w.schedule,
		"repeat":     w.repeatSchedule,
		"amend":      w.amend,
		"claim":      w.claim,
		"sweep":      w.sweep,
		"edge":       w.edge,
		"one ms":     w.oneMillisecond,
		"work":       w.work,
		"hand anew":  w.handAnew,
		"nack anew":  w.nackAnew,
		"call again": w.callAgain,
		"recover":    w.recover,
		"take over":  w.takeOver,
		"handle":     w.handle,
		"settle":     w.settle,
		"hand":       w.hand,
		"die":        w.die,
		"take entry": w.takeEntry,
		"look up":    w.lookUp,
		"report":     w.report,
		"read":       w.read,
		"reopen":     w.reopenRead,
		"touch":      w.touch,
		"flush":      w.flush,
		"save":       w.save,
		"restart":    w.restart,
		"trim":       w.trim,
	}
	if w.mortal {
		all["expire"] = w.expire
	}
	maps.Copy(all, w.resendActions())
	if w.order != unordered {
		maps.Copy(all, w.sequencesActions())
	}
	switch w.kind {
	case moves:
		maps.Copy(all, w.movesActions())
	case adoption:
		maps.Copy(all, w.timersActions())
	case reshards:
		maps.Copy(all, w.reshardsActions())
	}
	if w.kind.putsBack() {
		maps.Copy(all, w.putBackActions())
	}
	if w.steady {
		maps.DeleteFunc(all, func(name string, _ func(*rapid.T)) bool {
			return name == "save" || name == "restart" || name == "move, lose"
		})
	}
	if w.kind == moves || w.kind == adoption {
		maps.Copy(all, w.endingsActions())
	}
	maps.Copy(all, w.deathActions())
	return all
}

func pick[T any](t *rapid.T, label string, of []T) T {
	if len(of) == 0 {
		t.SkipNow()
	}
	return of[rapid.IntRange(0, len(of)-1).Draw(t, label)]
}

func (w *world) draw(t *rapid.T) (k int, n *note) {
	k = rapid.IntRange(0, w.keyCount-1).Draw(t, "key")
	return k, &w.notes[k]
}

// drawFate draws the fate of a call; most calls arrive.
func drawFate(t *rapid.T) fate {
	return []fate{arrives, arrives, arrives, arrives, arrives, arrives, replyLost, requestLost}[rapid.IntRange(0, 7).Draw(t, "fate")]
}

func drawWhen(t *rapid.T) when { return when(rapid.IntRange(0, 2).Draw(t, "when")) }

func (w when) delay() time.Duration { return []time.Duration{0, short, long}[w] }

// sent reports whether a call was answered, and fails if its error does not match its fate.
func (w *world) sent(f fate, err error) (answered bool) {
	w.wire.lose(arrives)
	if (err != nil) != (f != arrives) {
		w.t.Fatalf("the call%s: %v", f, err)
	}
	return err == nil
}

func (w *world) schedule(t *rapid.T) {
	k, _ := w.draw(t)
	w.bodies++
	x := drawWhen(t)
	r := store.Request{Key: w.key(k), Delay: x.delay(),
		Content: notice.Content{Body: []byte(strconv.Itoa(w.bodies)), ExpiresAfter: w.drawLife(t, x).after()}}
	r.OnDuplicate = []store.Duplicate{store.Reject, store.Keep, store.Replace}[rapid.IntRange(0, 2).Draw(t, "on duplicate")]
	w.send(t, w.any(t), k, r, "schedules", drawFate(t))
}

// repeatSchedule has a producer repeat a call whose reply was lost.
func (w *world) repeatSchedule(t *rapid.T) {
	r := pick(t, "call", w.again)
	k, err := strconv.Atoi(r.Key[len(r.Key)-1:])
	if err != nil {
		t.Fatal(err)
	}
	w.send(t, w.any(t), k, r, "schedules again", drawFate(t))
}

func (w *world) send(t *rapid.T, in *instance, k int, r store.Request, what string, f fate) {
	n := &w.notes[k]
	body, _ := strconv.Atoi(string(r.Body))
	x := map[time.Duration]when{0: now, short: soon, long: later}[r.Delay]
	lives := lifeOf(r.ExpiresAfter)
	w.say("producer %s key %d%s, body %d, due %s (%s)%s%s", what, k, w.by(in), body, x, r.OnDuplicate, lives, f)
	before := w.seenBefore(k)
	w.lose(t, f)
	out, err := in.store.Schedule(w.ctx, w.partition(in, k), []store.Request{r})
	if w.kind == reshards && err == nil {
		err = out[0].Err
	}
	f = w.left(f)
	answered := w.sent(f, err)
	if w.nothing(k, f, before) {
		w.again = append(w.again, r)
		return
	}
	creates := n.state == "" || r.OnDuplicate == store.Replace
	if answered {
		got := out[0]
		if got.Created != creates || got.Replaced != (creates && n.state != "") || got.Err != nil {
			t.Fatalf("schedule on %s: %+v", n, got)
		}
		differs := !creates && r.OnDuplicate == store.Reject && n.body != body
		if (len(got.Differs) > 0) != differs || !creates && (got.Route != n.under || string(got.Body) != n.text() || got.State != n.public()) {
			t.Fatalf("schedule on %s: state %s, body %s, differs %v", n, got.State, got.Body, got.Differs)
		}
		if creates && got.Made <= n.made {
			t.Fatalf("body %d has generation %d, its predecessor %d", body, got.Made, n.made)
		}
	} else {
		w.again = append(w.again, r)
	}
	if creates {
		before := *n
		w.replaced(k)
		*n = note{under: in.route(), body: body, writes: n.writes, stands: n.stands, place: n.place, away: n.away, to: n.to, fresh: true,
			life: lives}
		n.schedule(&w.scores, x)
		w.arm(k, x, "1", true)
		n.made = w.madeOf(k)
		w.join(k, 0, 1)
		w.wake(before.at())
		w.wake(n.at())
		if x == soon || lives == over {
			w.passShort()
		}
		if x == soon && lives == over {
			w.passShort()
		}
		n.far = x == later
	}
}

// madeOf reads the generation of a key's notice, which a lost reply did not return.
func (w *world) madeOf(k int) notice.Made {
	if w.kind == reshards {
		w.relocate(false)
	}
	text, err := w.plain.HGet(w.ctx, w.layouts[len(w.layouts)-1].Records(w.notes[k].at()), w.key(k)).Result()
	if err != nil {
		w.t.Fatalf("read the record of key %d: %v", k, err)
	}
	n, err := notice.Decode(w.key(k), prefix, text)
	if err != nil {
		w.t.Fatalf("read the record of key %d: %v", k, err)
	}
	return n.Made
}

func (w *world) amend(t *rapid.T) {
	k, _ := w.draw(t)
	op := pick(t, "operation", []store.Amendment{store.Cancel, store.Reschedule, store.Fire, store.Redrive})
	x, f := drawWhen(t), drawFate(t)
	if op == store.Fire || op == store.Redrive && w.kind != adoption {
		x = now
	}
	w.amendTo(t, k, op, x, f)
}

func (w *world) amendTo(t *rapid.T, k int, op store.Amendment, x when, f fate) {
	n := &w.notes[k]
	if x == now {
		w.pass(w.claimedAt) // in the same ms, the new score would equal the score of the claim
	}
	in, others := w.any(t), 0
	if w.kind == moves && f != arrives {
		others = rapid.IntRange(0, 2).Draw(t, "after") // a call for another prefix has more scripts
	}
	w.say("producer: %s key %d%s (%s), due %s%s%s", op, k, w.by(in), n, x, f, []string{"", " of the second script",
		" of the third script"}[others])
	seen := w.seenBefore(k)
	if w.wire.loseAfter(others, f); w.kind == reshards {
		w.lose(t, f)
	}
	c, err := in.store.Amend(w.ctx, in.route(), w.key(k), op, store.When{Delay: x.delay()})
	left, last := w.wire.lost()
	if n.state == "" {
		w.wire.lose(arrives)
		if err == nil {
			t.Fatalf("%s of nothing: %+v", op, c)
		}
		return
	}
	if left != arrives {
		f = arrives // the call had fewer scripts
	}
	before := n.public()
	done := op == store.Cancel && (before == notice.Scheduled || before == notice.Claimed || before == notice.Dead) ||
		(op == store.Reschedule || op == store.Fire) && before == notice.Scheduled ||
		(op == store.Redrive || op == store.Purge) && before == notice.Dead
	timed := op == store.Reschedule || op == store.Fire || op == store.Redrive
	err = w.refused(n, done && timed, err)
	done = done && !(timed && n.life == over)
	answered := w.sent(f, err)
	if w.kind != reshards && last != space.Shadow(at(n.under)) || w.kind == reshards && w.nothing(k, f, seen) {
		return
	}
	if answered && (c.Done != done || c.Before != before || c.InFlight != (before == notice.Claimed)) {
		t.Fatalf("%s of %s: done %v, before %s, in flight %v", op, n, c.Done, c.Before, c.InFlight)
	}
	if !done {
		return
	}
	defer func() { w.wake(n.at()) }()
	if op == store.Cancel || op == store.Purge {
		w.leave(k)
		if n.pending() {
			w.disarm(k)
		}
		w.ends(k, notice.EndCancelled)
		writes := n.writes // a cancel does not write the record
		n.settle(notice.Cancelled)
		n.writes = writes
		return
	}
	n.schedule(&w.scores, x)
	w.arm(k, x, "0", false)
	switch {
	case op == store.Fire && dueBy(n.position, w.dueOf(k)), op == store.Redrive && w.order == block:
		w.keep(k, 0)
	default:
		w.join(k, 0, 0)
	}
	if x == soon {
		w.passShort()
	}
}

// dueOf returns the due time in key k's record, Unix ms.
func (w *world) dueOf(k int) int64 {
	if w.kind == reshards {
		w.relocate(w.within)
	}
	n, err := notice.Decode(w.key(k), prefix, w.recordOf(k))
	if err != nil {
		w.t.Fatalf("read the record of key %d: %v", k, err)
	}
	return n.Due.UnixMilli()
}

func (w *world) newCall(t *rapid.T, in *instance) call {
	w.serial++
	c := call{under: in.own[0], token: fmt.Sprintf("%s-%d", in.id, w.serial), lasts: rapid.Bool().Draw(t, "lease lasts")}
	if len(in.own) > 1 {
		c.under = pick(t, "route", in.own)
	}
	if w.kind == reshards {
		c.place = w.drawPlace(t, in)
	}
	return c
}

func (c call) lease() store.Lease {
	if c.lasts {
		return store.Lease{Token: c.token, For: long}
	}
	return store.Lease{Token: c.token, For: short}
}

func (c call) leaseText() string {
	if c.lasts {
		return "1 h"
	}
	return "2 ms"
}

func (w *world) claim(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	c := w.newCall(t, in)
	c.keys = rapid.SliceOfNDistinct(rapid.IntRange(0, w.keyCount-1), 1, w.keyCount, rapid.ID[int]).Draw(t, "keys")
	w.makeClaim(t, in, c, "claims", drawFate(t))
}

func (w *world) sweep(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	c := w.newCall(t, in)
	c.limit = rapid.IntRange(1, w.keyCount).Draw(t, "limit")
	w.makeClaim(t, in, c, "sweeps", drawFate(t))
}

// callAgain repeats a claim call whose reply was lost, with the same token.
func (w *world) callAgain(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	c := pick(t, "call", in.called)
	in.called = slices.DeleteFunc(in.called, func(o call) bool { return o.token == c.token })
	if c.keys == nil {
		t.SkipNow()
	}
	w.makeClaim(t, in, c, "claims again", drawFate(t))
}

func (w *world) makeClaim(t *rapid.T, in *instance, c call, what string, f fate) {
	names := make([]string, len(c.keys))
	for i, k := range c.keys {
		names[i] = w.key(k)
	}
	w.say("%s %s %v%s, lease %s, token %s%s", in.id, what, c.keys, w.where(c.at()), c.leaseText(), c.token, f)
	scores := w.scoresIn(c.at())
	w.wire.lose(f)
	var got store.Claimed
	var err error
	switch {
	case c.keys != nil:
		got, err = in.store.ClaimKeys(w.ctx, c.at(), c.lease(), names)
	default:
		got, err = in.store.Sweep(w.ctx, c.at(), c.lease(), store.SweepOptions{Limit: c.limit, Newest: w.serial%2 == 0,
			From: fmt.Sprint(w.serial % 3)})
	}
	if !w.sent(f, err) {
		in.called = append(in.called, c)
	}
	if f == requestLost {
		return
	}
	won := w.won(got, f == arrives)
	if f == replyLost && c.keys == nil {
		won = w.whoWon(c)
	}
	stale := 0
	want := w.expect(c, won, scores)
	for k := range w.notes {
		n, x := &w.notes[k], want[k]
		if _, is := won[k]; (f == arrives || c.keys == nil) && is != x.wins {
			t.Fatalf("key %d is %s: won %v, want %v", k, n, is, x.wins)
		}
		if x.asked && !x.wins && !x.parks {
			stale++
		}
		if x.parks {
			w.say("\tkey %d is parked", k)
			w.park(k)
		}
		if x.wins {
			w.take(t, in, k, c, won[k], x.own)
		}
	}
	if f == arrives && c.keys != nil && got.Stale+got.Lost != stale {
		t.Fatalf("%d stale and %d lost, want %d together", got.Stale, got.Lost, stale)
	}
	if !c.lasts {
		w.passShort()
	}
}

// expected is the outcome of a claim call for one key.
type expected struct{ asked, own, wins, parks bool }

// expect returns the expected outcome of a claim call for each key. scores are those before the call.
func (w *world) expect(c call, won map[int]*store.Claim, scores [mostKeys]string) (want [mostKeys]expected) {
	now, done := w.scoresIn(c.at()), 0
	for k := range w.notes {
		n, x := &w.notes[k], &want[k]
		x.asked = c.keys == nil || slices.Contains(c.keys, k)
		x.own = n.held() && n.holder == c.token && c.keys != nil
		due := x.asked && c.has(n) && n.claimable()
		x.parks = due && w.blocked(k, c.at(), c.token)
		x.wins = due && !x.parks || x.asked && c.has(n) && x.own
		if _, is := won[k]; is || x.parks && now[k] != scores[k] {
			done++
		}
	}
	if c.keys != nil || done < c.limit {
		return want
	}
	for k := range want { // the sweep was cut off by its limit
		_, is := won[k]
		want[k].wins, want[k].parks = want[k].wins && is, want[k].parks && now[k] != scores[k]
	}
	return want
}

// won returns the claims of a reply, by key.
func (w *world) won(got store.Claimed, answered bool) map[int]*store.Claim {
	won := map[int]*store.Claim{}
	if answered {
		for i := range got.Won {
			k := int(got.Won[i].Key[len(got.Won[i].Key)-1] - '0')
			won[k] = &got.Won[i]
			w.claimedAt = got.Now
		}
	}
	return won
}

// whoWon reads in Redis which keys a sweep has claimed whose reply was lost. The model
// cannot predict the order of a sweep.
func (w *world) whoWon(c call) map[int]*store.Claim {
	won := map[int]*store.Claim{}
	for k := range w.notes {
		s, err := w.plain.ZScore(w.ctx, w.layouts[len(w.layouts)-1].Shadow(c.at()), w.key(k)).Result()
		n := &w.notes[k]
		if part := s - float64(int64(s)); err == nil && c.has(n) && n.claimable() && part*1024 == float64(min(n.lapses+1, 499)) {
			won[k] = nil
		}
	}
	return won
}

// take records a won claim in the model. If the reply came, the instance gets a job.
func (w *world) take(t *rapid.T, in *instance, k int, c call, got *store.Claim, own bool) {
	n := &w.notes[k]
	early := n.life == over && n.far
	w.checkAlone(k, c.at())
	w.mark(k, c.at(), c.token, c.lasts)
	j := &job{key: k, under: c.under, place: c.place, token: c.token, body: n.body, made: n.made, used: n.used, before: n.score,
		lapses: n.lapses, awaits: n.awaits}
	if own {
		j.lapses--
		j.before = n.dueIs
		n.score, n.lasts = w.scores.fresh(), c.lasts
	} else {
		n.claim(&w.scores, c.token, c.lasts)
	}
	j.score = n.score
	if got == nil {
		return
	}
	if got.Lapses != j.lapses || got.AttemptsMade != n.used || string(got.Body) != n.text() || got.Made != n.made || got.Route != n.under {
		t.Fatalf("key %d is %s after %d claims; won with %d lapses, %d attempts, body %s", k, n, n.lapses, got.Lapses, got.AttemptsMade, got.Body)
	}
	if is, err := w.plain.Time(w.ctx).Result(); err != nil || got.Due.After(is) && !early {
		t.Fatalf("key %d was claimed before it was due: %s, %v", k, got.Due, err)
	}
	j.claim = *got
	in.jobs = slices.DeleteFunc(in.jobs, func(o *job) bool { return o.token == j.token && o.key == k })
	in.jobs = append(in.jobs, j)
}

// recover has an instance find the claims of its call whose reply was lost.
func (w *world) recover(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	c := pick(t, "call", in.called)
	f := drawFate(t)
	w.say("%s recovers the claims of %s%s, lease %s%s", in.id, c.token, w.where(c.at()), c.leaseText(), f)
	w.wire.lose(f)
	got, err := in.store.Recover(w.ctx, c.at(), c.lease(), mostKeys, 10*time.Minute)
	if w.sent(f, err) {
		in.called = slices.DeleteFunc(in.called, func(o call) bool { return o.token == c.token })
	}
	if f == requestLost {
		return
	}
	won := w.won(got, f == arrives)
	for k := range w.notes {
		n := &w.notes[k]
		own := n.held() && n.holder == c.token && c.has(n)
		if _, is := won[k]; f == arrives && is != own {
			t.Fatalf("key %d is %s: recovered %v, want %v", k, n, is, own)
		}
		if own {
			w.take(t, in, k, c, won[k], true)
		}
	}
	if !c.lasts {
		w.passShort()
	}
}

// takeOver has an instance reclaim the claims of a dead instance.
func (w *world) takeOver(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	w.reclaim(t, in, pick(t, "dead", w.dead), drawFate(t))
}

// reclaim has an instance reclaim the claims of a dead one.
func (w *world) reclaim(t *rapid.T, in *instance, dead string, f fate) {
	c := w.newCall(t, in)
	c.over, c.limit = dead, mostKeys
	w.say("%s reclaims the claims of %s%s, lease %s, token %s%s", in.id, c.over, w.where(c.at()), c.leaseText(), c.token, f)
	w.wire.lose(f)
	got, err := in.store.TakeOver(w.ctx, c.at(), c.lease(), store.TakeOverOptions{Holder: c.over, Longest: 2 * long, Limit: c.limit})
	if !w.sent(f, err) {
		in.called = append(in.called, c)
	}
	if f == requestLost {
		return
	}
	won := w.won(got, f == arrives)
	for k := range w.notes {
		n := &w.notes[k]
		may := c.has(n) && n.held() && strings.HasPrefix(n.holder, c.over+"-")
		if _, is := won[k]; f == arrives && is != may {
			t.Fatalf("key %d is %s: taken over %v, want %v", k, n, is, may)
		}
		if may {
			w.take(t, in, k, c, won[k], false)
		}
	}
	if !c.lasts {
		w.passShort()
	}
}
