package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// This file calls the store's methods for each row of the table Transitions, and says by the model what follows.

const (
	step  = 70 * time.Second // of a ladder
	soon  = 2 * time.Hour    // when a notice is due that is given a new due time
	claim = 90 * time.Second // the lease of the calls
	mine  = "i3-1"           // the token of the calls that claim
	tail  = `,"text":"new"}` // of a new notice
	// lastingTail is that of a new notice that expires; the record gets the time.
	lastingTail = `,"text":"new","expires_after":10800000}`
	died        = int64(1700000000123) // when a restored letter died
)

// scheduleCall schedules a notice with a delay, or due in the past.
func scheduleCall(mode Duplicate, delay time.Duration) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		q := Request{Key: n.key, OnDuplicate: mode, Delay: delay, Content: body("new")}
		if delay == 0 {
			q.Due = time.UnixMilli(w.now() - anHour)
		}
		out, err := r.s.Schedule(r.ctx, partition, []Request{q})
		if err == nil {
			err = out[0].Err
		}
		return tail, err
	}
}

// lastingCall schedules a notice that expires after its due time, or too early.
func lastingCall(mode Duplicate, early bool) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		q := Request{Key: n.key, OnDuplicate: mode, Delay: soon, Content: body("new")}
		if q.ExpiresAfter = time.Duration(life) * time.Millisecond; early {
			q.Expires, q.ExpiresAfter = time.UnixMilli(w.now()+anHour), 0
		}
		out, err := r.s.Schedule(r.ctx, partition, []Request{q})
		if err == nil && !(early && errors.Is(out[0].Err, ErrExpires)) {
			err = out[0].Err
		}
		return lastingTail, err
	}
}

// amendCall changes a notice. The records that it is given are made from the stored one.
func amendCall(op Amendment, when string, record func(w *world, n *stored) string) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		a := amended{key: n.key, when: when}
		switch when {
		case "past":
			a.when = "=" + strconv.FormatInt(w.now()-anHour, 10)
		case "soon":
			a.when = "+" + strconv.FormatInt(soon.Milliseconds(), 10)
		case "soon, lasting":
			a.when = fmt.Sprintf("+%d +%d", soon.Milliseconds(), life)
		}
		if record != nil {
			a.record, a.was = record(w, n), n.record
		}
		_, err := r.s.amend(r.ctx, partition, op, []amended{a})
		return a.record, err
	}
}

// otherTail is the tail of a new notice, lastTail that of one that expires.
func otherTail(*world, *stored) string { return tail }
func lastTail(*world, *stored) string  { return lastingTail }

// changed is a record of the same notice with other content.
func changed(w *world, n *stored) string {
	return lasting(fmt.Sprintf(`{"due":%d,"made":%d,"text":"new","n":1,"redriven":1}`, w.now()-minute, made), lapse(n.record))
}

func claimCall(token string) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		_, err := r.s.ClaimKeys(r.ctx, partition, Lease{token, claim}, []string{n.key})
		return "", err
	}
}

// settleCall settles the claim with a token. Its notice is the stored one after one more attempt. lost means that Redis has lost the claim,
// as after a restart: the score is still the one before it.
func settleCall(token string, t Settlement, lost bool) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		x, err := notice.Decode(n.key, prefix, n.record)
		if err != nil {
			x = unread(n.key, prefix, n.record, text(n.due), time.UnixMilli(w.now()))
		}
		if token == ours {
			x.AttemptsMade++
		}
		if t.Ending == EndDead {
			dies(x)
		}
		t := t
		t.Claim = Claim{Notice: x, token: token, score: "1", before: beforeClaim(w)}
		switch {
		case lost:
			t.Claim.before = text(n.due)
		case claimed(n.due) && n.parked == 0 && (token == ours || x.AttemptsMade == 1):
			t.Claim.score = text(n.due)
		}
		_, err = r.s.Settle(r.ctx, partition, []Settlement{t})
		if t.Ending == EndRetry || t.Ending == EndDeferred {
			return string(x.AppendTail(fmt.Appendf(nil, `,"made":%d`, int64(x.Made)))), err
		}
		return string(AppendRecord(nil, x)), err
	}
}

// dies gives a notice the reason and the last attempt of a dead letter. cause is what they add to its score: see architecture.md.
func dies(x *notice.Notice) {
	x.Reason, x.Attempts = notice.ReasonStatus5xx, []notice.Attempt{{Number: 1, Reason: notice.ReasonStatus5xx, Status: 502}}
}

const cause = 230. / 2048 // of status 502

// beforeClaim is the score before a claim, as its holder knows it.
func beforeClaim(w *world) string { return text(float64(w.started - 2*minute)) }

// The outcomes of a settle.

func delivered(c *change) {
	c.leave()
	c.hand("d", c.given)
	c.n.record = c.given
	c.finish(float64(c.now()), 0)
}

func dead(c *change) {
	if !c.blocks() {
		c.leave()
	}
	c.hand("x", c.given)
	c.n.record = c.given
	c.finish(0, float64(c.now())+cause)
}

func deadWithHook(c *change) {
	dead(c)
	c.deaths = append(c.deaths, strconv.FormatInt(c.us, 10)+" "+hook.text(&notice.Notice{Key: c.n.key, Made: notice.Made(c.madeOf())}))
}

// madeOf is the generation that the holder of a claim knows.
func (c *change) madeOf() int64 { return madeIn(c.given) }

func scheduledAgain(c *change) {
	due := c.after(step.Milliseconds())
	c.n.record = fmt.Sprintf(`{"due":%d`, due) + c.given
	c.schedule(c.before, due, strconv.Itoa(next(c.n.record)), next(c.n.record), false, untimed)
	c.n.due += c.later()
}

func postponed(c *change) {
	due := c.after(step.Milliseconds())
	value := next(c.given)
	c.n.record = c.given
	if c.arm(c.before, due, strconv.Itoa(value), value, false) {
		c.n.due = float64(due) + (500+rate)/1024
		if !firstAttempt(c.given) {
			c.n.due += 0.5 / 1024
		}
		return
	}
	c.n.due = float64(due) + untimed + rate/256
	if !firstAttempt(c.given) {
		c.n.due += 0.5 / 256
	}
}

func onHold(c *change) {
	c.n.record = c.given
	c.n.due = float64(c.after(step.Milliseconds())) + paused
	c.n.pause, c.n.listed = "p2", c.n.due
}

// handed keeps the marker of the claim for the consumer.
func handed(c *change) {
	c.found()
	c.n.record = c.given
	at := c.now() + step.Milliseconds()
	c.n.due, c.n.token, c.n.until = float64(at)+claimOne, fmt.Sprintf("report:%d:%d", c.madeOf(), next(c.given)-1), expiry{at, true}
	c.renew()
}

var (
	hook = Death{Hook: "app1", Facts: []byte(`{}`)}
	rate = float64(notice.HeldRate.Index())

	living = []string{"pending", "claimed", "locked", "handed", "dead"}
)

func cancelled(c *change) {
	c.unlist()
	c.leave()
	c.disarm(c.n.due)
	c.hand(c.letter("c"), c.n.record)
	c.finish(float64(c.now())+0.5, 0)
}

// retired is cancelled without an entry in the outbox.
func retired(c *change) {
	c.unlist()
	c.leave()
	c.disarm(c.n.due)
	c.finish(float64(c.now())+0.5, 0)
}

// soonDue is the due time that the calls give.
func (w *world) soonDue() int64 { return w.after(soon.Milliseconds()) }

// move gives a notice another due time and a position by it.
func (c *change) move(due int64) {
	c.unlist()
	due = max(due, c.now())
	c.n.record = redated(c.n.record, due)
	c.schedule(c.n.due, due, "0", next(c.n.record), false, c.part())
}

// reschedule moves a notice. Its position is new.
func reschedule(due func(c *change) int64) func(c *change) {
	return func(c *change) {
		c.move(due(c))
		c.join(max(due(c), c.now()), madeIn(c.n.record), 0)
	}
}

// fire makes a notice due now. It keeps a position whose time has passed.
func fire(c *change) {
	due, _ := strconv.ParseInt("0"+c.n.position[:min(len(c.n.position), 11)], 16, 64)
	c.move(c.now())
	if c.n.position != "" && due <= c.now() {
		c.keep(0, 0)
		return
	}
	c.join(c.now(), madeIn(c.n.record), 0)
}

// revive schedules a finalized notice with a record. A dead letter keeps its position if it has one.
func revive(c *change, record string, due int64) {
	stays := c.n.dead != 0 && c.blocks()
	c.n.dead, c.n.settled = 0, 0
	due = max(due, c.now())
	c.n.record = redated(record, due)
	c.schedule(0, due, "0", next(c.n.record), false, c.part())
	if stays {
		c.keep(dueIn(record, due), madeIn(record))
		return
	}
	c.join(due, madeIn(record), 0)
}

func redrive(due func(c *change) int64) func(c *change) {
	return func(c *change) { revive(c, c.n.record[:len(c.n.record)-1]+`,"again":true}`, due(c)) }
}
func (c *change) pastDue() int64 { return c.started - anHour }
func resent(c *change) {
	if _, taken := c.names[c.n.key]; taken && c.mode == "adopting" {
		return // the producer's timer is adopted instead
	}
	revive(c, c.given, 0)
}

// reopened schedules a delivered notice again. With block it goes where its due time was.
func reopened(c *change) {
	revive(c, c.given, c.soonDue())
	if c.blocks() {
		c.join(dueIn(c.given, 0), madeIn(c.given), 0)
	}
}
func rescheduledAt(c *change) { c.n.record = c.given; reschedule((*change).soonDue)(c) }

// readdressed changes the record. A notice that is held is released.
func readdressed(c *change) {
	c.n.record = c.given
	if fraction(c.n.due) == paused && c.n.pause != "" {
		c.unlist()
		c.n.due = float64(c.now()) + paused
	}
	if c.cluster() && timed(c.n.due) { // the timer is set again if it was lost
		c.arm(c.n.due, int64(c.n.due), "", next(c.n.record), false)
	}
}

func reopenedDead(c *change) {
	c.n.settled, c.n.dead, c.n.record = 0, float64(c.now())+cause, c.given
	if c.blocks() {
		c.keep(dueIn(c.given, 0), madeIn(c.given))
	}
	c.hand("x", c.given)
}

func fromHistory(settled float64) func(c *change) {
	return func(c *change) {
		c.unlist()
		c.leave()
		c.disarm(c.n.due)
		c.n.record = c.given
		c.finish(float64(c.now())+settled, 0)
	}
}

// claims gives the notice a claim, or parks it. Heads that are neither pending nor dead letters that block leave first.
func claims(token string, early bool) func(c *change) {
	return func(c *change) {
		if c.ordered() {
			if c.n.position == "" {
				c.join(int64(c.n.due), madeIn(c.n.record), 0)
			}
			c.removeStrays()
			wait, near := c.wait(token)
			clear(c.touched) // a claim promotes no other notice
			switch {
			case wait != 0 && early:
				return
			case wait != 0:
				c.unlist()
				if c.n.parked == 0 {
					c.n.parked = float64(c.now())
				}
				c.n.due, c.n.near = c.at(wait, c.n.due), near
				return
			}
		}
		c.unlist()
		count := 1.0
		if claimed(c.n.due) {
			count += fraction(c.n.due) * 1024
		}
		c.lease(token, count)
	}
}

// removeStrays takes the heads out of the sequence that are not stored any more.
func (c *change) removeStrays() {
	for _, head := range c.bySequence()[keys.OrderKey(c.n.key)] {
		if head == c.n || head.due != 0 || c.blocks() && head.dead != 0 {
			return
		}
		head.position, head.parked = "", 0
		c.strays++
	}
}

// tidied is what a claim does that finds the notice claimed.
func tidied(c *change) {
	if c.ordered() && c.n.due != 0 && c.n.due < float64(c.now()) {
		c.removeStrays()
		clear(c.touched)
	}
}

// wait is the end of the wait of a notice that is not the head of its sequence, or not allowed to start before a marker ends; 0 = it may
// start.
func (c *change) wait(token string) (until int64, near bool) {
	name := keys.OrderKey(c.n.key)
	if i := slices.Index(c.bySequence()[name], c.n); i > 0 {
		return c.now() + 300_000 + 150*int64(i), false
	}
	if m, has := c.markers[name]; has && (m.key != c.n.key || m.token != token) {
		return m.until.at + 1, true
	}
	return 0, false
}

// lease writes a claim that counts so many claims.
func (c *change) lease(token string, count float64) {
	until := c.now() + claim.Milliseconds()
	c.n.due, c.n.near, c.n.parked = float64(until)+count/1024, false, 0
	c.n.token, c.n.until = token, expiry{until, true}
}

func renewed(c *change) {
	if c.n.token == "" { // due
		claims(ours, false)(c)
		return
	}
	c.lease(c.n.token, fraction(c.n.due)*1024)
	c.renew()
}

func claimedEarly(c *change) {
	was := c.n.due
	if was > float64(c.now()) && !timed(was) {
		return
	}
	claims(mine, was > float64(c.now()))(c)
	if c.n.due != was {
		c.disarm(was)
	}
}

func takenOver(c *change) {
	c.lease(mine, fraction(c.n.due)*1024+1)
	c.renew()
}

// replaced schedules a new notice, in the place of the stored one if that has a record.
func replaced(due func(c *change) int64) func(c *change) {
	return func(c *change) {
		if c.n.record == "" {
			c.create(0, due(c), 1, untimed)
			return
		}
		c.replaceBy(due(c), 1, untimed)
	}
}

// freed is what a settle or report of a claim that is not valid any more does: it ends its own marker.
func freed(token string) func(c *change) { return func(c *change) { c.free(token) } }

func claimEarlyCall(r *rig, _ *world, n *stored) (string, error) {
	_, err := r.s.ClaimPostponed(r.ctx, partition, Lease{mine, claim}, []Postponed{{n.key, text(n.due)}})
	return "", err
}

func recoverCall(r *rig, _ *world, _ *stored) (string, error) {
	_, err := r.s.Recover(r.ctx, partition, Lease{ours, claim}, 10, time.Minute)
	return "", err
}

func expireCall(r *rig, _ *world, _ *stored) (string, error) {
	_, err := r.s.Sweep(r.ctx, partition, Lease{mine, claim}, SweepOptions{Expired: true, Limit: 10})
	return "", err
}

// expired claims a notice that has expired, whatever its sequence. One that is claimed gets another look when its claim ends.
func expired(c *change) {
	was := c.n.due
	switch at := lapse(c.n.record); {
	case at == 0 || at > c.now() || was == 0:
	case claimed(was) && was > float64(c.now()) && c.n.parked == 0:
		c.n.looked = int64(math.Floor(was)) + 1
	case c.n.token != "":
		c.n.looked = max(int64(math.Floor(was))+1, c.now()+50)
	default:
		c.unlist()
		c.disarm(was)
		count := 1.0
		if claimed(was) {
			count += fraction(was) * 1024
		}
		c.lease(mine, count)
	}
}

func takeOverCall(r *rig, _ *world, _ *stored) (string, error) {
	_, err := r.s.TakeOver(r.ctx, partition, Lease{mine, claim}, TakeOverOptions{Holder: "i1", Longest: 2 * time.Minute, Limit: 10})
	return "", err
}

// restoreCall restores the notice as a dead letter or as one that is pending.
func restoreCall(isDead bool) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		x := &notice.Notice{Key: n.key, Route: prefix, Made: notice.Made(made), Due: time.UnixMilli(w.started + anHour).UTC(),
			Content: body("b"), AttemptsMade: 2}
		l := Letter{Notice: x}
		if isDead {
			l.Died = time.UnixMilli(died)
			dies(x)
		}
		_, err := r.s.Restore(r.ctx, partition, []Letter{l})
		return string(AppendRecord(nil, x)), err
	}
}

// restoreLasting restores a pending notice that expires.
func restoreLasting(r *rig, w *world, n *stored) (string, error) {
	x := &notice.Notice{Key: n.key, Route: prefix, Made: notice.Made(made), Due: time.UnixMilli(w.started + anHour).UTC(),
		Content: body("b"), AttemptsMade: 2}
	x.Expires = time.UnixMilli(w.started + life).UTC()
	_, err := r.s.Restore(r.ctx, partition, []Letter{{Notice: x}})
	return string(AppendRecord(nil, x)), err
}

func restoredDead(c *change) {
	c.n.record, c.n.due, c.n.settled, c.n.dead = c.given, 0, 0, float64(died)+cause
	if c.blocks() {
		c.keep(c.started+anHour, made)
	}
}

func restored(c *change) {
	due := c.started + anHour
	c.n.record = c.given
	c.schedule(0, due, "3", 3, false, untimed)
	c.keep(due, made)
}

// settles are the rows of a settle, by the holder of the claim or by a report.
func settles() (list []rule) {
	for _, s := range []struct {
		name string
		t    Settlement
		to   func(c *change)
	}{
		{"delivered", Settlement{Ending: EndDelivered}, delivered},
		{"retry", Settlement{Ending: EndRetry, After: step}, scheduledAgain},
		{"deferred", Settlement{Ending: EndDeferred, After: step}, scheduledAgain},
		{"dead", Settlement{Ending: EndDead}, dead},
		{"dead with a hook", Settlement{Ending: EndDead, Death: &hook}, deadWithHook},
		{"postpone", Settlement{Ending: EndPostponed, After: step, Held: notice.HeldRate}, postponed},
		{"hold", Settlement{Ending: EndPostponed, After: step, Held: notice.HeldPaused, Pause: "p2"}, onHold},
		{"hand", Settlement{Ending: EndHanded, After: step}, handed},
	} {
		to := settle(ours, s.to)
		if s.name == "hand" {
			to = s.to
		}
		list = append(list, rule{name: "settle " + s.name, from: []string{"claimed", "claimed without a key", "lapsed"},
			call: settleCall(ours, s.t, false), to: to, also: freed(ours)})
		list = append(list, rule{name: "settle " + s.name + " after the claim was lost", from: []string{"pending", "claimed"},
			but: []string{"without a record", "unreadable"}, lost: true, call: settleCall(ours, s.t, true), to: to, also: freed(ours)})
		if s.name != "postpone" && s.name != "hold" && s.name != "hand" {
			list = append(list, rule{name: "report " + s.name, from: []string{"handed", "handed without a key"},
				call: settleCall(reportOf(1), s.t, false), to: settle(reportOf(1), s.to), also: freed(reportOf(1))})
		}
	}
	return list
}

// rules are the rows of the table.
var rules = slices.Concat([]rule{
	{name: "schedule", from: []string{"absent", "without a record"}, call: scheduleCall(Reject, soon),
		to: replaced((*change).soonDue)},
	{name: "tick", few: true, from: []string{"absent", "without a record"}, call: tickCall("", ""), to: replaced((*change).soonDue)},
	{name: "tick that may overlap", few: true, from: []string{"absent", "without a record"}, call: tickCall("{3}", "1000 1 1 32 "),
		to: replaced((*change).soonDue)},
	{name: "schedule in the past", from: []string{"absent", "without a record"}, call: scheduleCall(Keep, 0),
		to: replaced((*change).pastDue)},
	{name: "replace", from: append(living, "delivered", "cancelled", "taken", "absent", "tombstone"), call: scheduleCall(Replace, soon),
		to: replaced((*change).soonDue)},
	{name: "replace in the past", from: append(living, "delivered", "cancelled", "taken", "absent", "tombstone"),
		call: scheduleCall(Replace, 0), to: replaced((*change).pastDue)},
	{name: "replace in an old shard", from: append(living, "delivered", "cancelled"), call: amendCall(replace, "soon", otherTail),
		to: func(c *change) { c.replaceBy(c.soonDue(), 0, c.part()) }},
	{name: "schedule one that expires", few: true, from: []string{"absent", "without a record"}, call: lastingCall(Reject, false),
		to: replaced((*change).soonDue)},
	{name: "replace by one that expires", few: true, from: append(living, "delivered", "cancelled", "taken", "absent", "tombstone"),
		call: lastingCall(Replace, false), to: replaced((*change).soonDue)},
	{name: "replace in an old shard by one that expires", few: true, from: append(living, "delivered", "cancelled"),
		call: amendCall(replace, "soon, lasting", lastTail), to: func(c *change) { c.replaceBy(c.soonDue(), 0, c.part()) }},
	{name: "replace by one that expires too early", few: true, call: lastingCall(Replace, true)},

	{name: "claim", from: []string{"due"}, call: claimCall(mine), to: claims(mine, false), also: tidied},
	{name: "claim early", from: []string{"due", "postponed"}, call: claimEarlyCall, to: claimedEarly, also: tidied},
	{name: "renew", from: []string{"claimed", "due"}, call: claimCall(ours), to: renewed, also: tidied},
	{name: "recover", from: []string{"claimed"}, call: recoverCall, to: renewed},
	{name: "expire", from: append(living, "delivered", "cancelled"), call: expireCall, to: expired},
	{name: "take over", from: []string{"claimed"}, call: takeOverCall, to: takenOver},

	{name: "cancel", from: living, call: amendCall(Cancel, "", nil), to: cancelled},
	{name: "purge", from: []string{"dead"}, call: amendCall(Purge, "", nil), to: cancelled},
	{name: "retire", from: []string{"dead"}, call: amendCall(retire, "", nil), to: retired},
	{name: "reschedule", from: []string{"pending"}, due: (*world).soonDue, call: amendCall(Reschedule, "soon", nil),
		to: reschedule((*change).soonDue)},
	{name: "reschedule into the past", from: []string{"pending"}, due: (*world).now,
		call: amendCall(Reschedule, "past", nil), to: reschedule((*change).pastDue)},
	{name: "fire", from: []string{"pending"}, due: (*world).now, call: amendCall(Fire, "", nil), to: fire},
	{name: "redrive", from: []string{"dead"}, due: (*world).soonDue, call: amendCall(Redrive, "soon", nil),
		to: redrive((*change).soonDue)},
	{name: "redrive now", from: []string{"dead"}, due: (*world).now, call: amendCall(Redrive, "+0", nil), to: redrive((*change).pastDue)},
	{name: "reopen", from: []string{"delivered"}, call: amendCall(reopen, "soon", changed), to: reopened},
	{name: "reopen as dead", from: []string{"delivered"}, call: amendCall(reopen, "dead 230", changed), to: reopenedDead},
	{name: "resend", from: []string{"dead", "delivered"}, due: (*world).now, call: amendCall(resend, "+0", changed), to: resent},
	{name: "readdress", from: []string{"pending", "dead"}, call: amendCall(readdress, "", changed), to: readdressed},
	{name: "readdress with a due time", from: []string{"pending"}, due: (*world).soonDue,
		call: amendCall(readdress, "soon", changed), to: rescheduledAt},
	{name: "settle from history as delivered", from: living, call: amendCall(settleKnown, "delivered", changed), to: fromHistory(0)},
	{name: "settle from history as cancelled", from: living, call: amendCall(settleKnown, "cancelled", changed), to: fromHistory(0.5)},

	{name: "restore a dead letter", from: []string{"absent", "tombstone", "cancelled", "without a record"}, call: restoreCall(true),
		to: restoredDead},
	{name: "restore one that expires", few: true, from: []string{"absent", "tombstone", "without a record"}, call: restoreLasting,
		to: restored},
	{name: "redrive with an expiry", few: true, from: []string{"dead"}, call: amendCall(Redrive, "soon, lasting", nil), to: func(c *change) {
		c.n.record = prolonged(c.n.record, c.soonDue()+life)
		redrive((*change).soonDue)(c)
	}},
	{name: "restore", from: []string{"absent", "tombstone", "without a record"}, call: restoreCall(false), to: restored},
}, settles(), scripts)
