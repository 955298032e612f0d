package sim

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"notifier/internal/intake"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// In a world of adoption, producers set, move and delete plain timers, also under the keys
// of notices. Each instance follows the timers by Redis's own events, which it gets late,
// in parts, or never.

// timer is the reference model of a timer.
type timer struct {
	there   bool
	value   string
	at      int64 // the expiry, Unix ms; 0 = by the notice's score
	eternal bool
	short   bool // it expires before the next step
}

// own returns the timer that a script sets.
func own(value string, x when) timer { return timer{there: true, value: value, short: x == soon} }

// alive reports whether the timer exists at an instant.
func (tm timer) alive(ms int64) bool {
	return tm.there && (tm.eternal || tm.at == 0 || ms <= tm.at)
}

// arm records in the model the timer that a script sets when it makes key k pending. anew reports whether the notice was
// replaced: then a timer that is moved gets the value 1.
func (w *world) arm(k int, x when, value string, anew bool) {
	if w.kind != adoption {
		return
	}
	n, tm := &w.notes[k], &w.timers[k]
	switch ours := w.ours(k); {
	case x == now && ours:
		*tm = timer{}
	case x == now:
	case !tm.there:
		*tm = own(value, x)
	case ours && anew:
		*tm = own("1", x)
	case ours:
		*tm = own(tm.value, x)
	default: // a producer's
		n.timer, n.dueIs = false, 0
	}
}

// ours reports whether the timer is the notice's own: its score before the step says that it has one, and the timer expires
// at that time.
func (w *world) ours(k int) bool {
	tm, stood := &w.timers[k], w.notes[k].stands
	if !tm.there || tm.eternal || stood == 0 || !store.HasTimer(stood) {
		return false
	}
	off := float64(tm.at+1) - math.Floor(stood)
	return tm.at == 0 || off >= -2 && off <= 2
}

// disarm removes the timer of a notice from the model, unless it is a producer's.
func (w *world) disarm(k int) {
	if w.kind == adoption && w.ours(k) {
		w.timers[k] = timer{}
	}
}

// compareTimer compares a key's timer with the model.
func (w *world) compareTimer(k int, value string, expires int64) {
	tm := &w.timers[k]
	if tm.short {
		*tm = timer{}
	}
	if !tm.there {
		if expires != -2 {
			w.t.Fatalf("key %d must have no timer; it has one, %q, that expires at %d", k, value, expires)
		}
		return
	}
	if tm.at == 0 && !tm.eternal { // set by a script; compare has read the notice's score
		tm.at = int64(w.notes[k].stands) - 1
	}
	if want := tm.at; value != tm.value || tm.eternal != (expires == -1) || !tm.eternal && expires != want {
		w.t.Fatalf("key %d must have the timer %+v; it has %q that expires at %d", k, *tm, value, expires)
	}
}

func (w *world) timersActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"set timer":    w.setTimer,
		"set twice":    func(t *rapid.T) { w.setTimer(t); w.setTimer(t) },
		"set over":     w.setOver,
		"touch timer":  w.changeTimer,
		"move own":     w.moveOwn,
		"hear":         func(t *rapid.T) { w.hear(t, pick(t, "instance", w.instances)) },
		"hear all":     w.hearAll,
		"hear nothing": w.hearNothing,
		"follow":       w.follow,
		"look all":     w.lookAll,
		"expire amid":  w.expireBetweenScripts,
	}
}

// unique returns a distant instant that no other timer of this run has.
func (w *world) unique() int64 {
	w.serial++
	return time.Now().Add(2*long).UnixMilli() + int64(w.serial)*10
}

// setTimer has a producer set a plain timer.
func (w *world) setTimer(t *rapid.T) {
	k, _ := w.draw(t)
	w.setTimerOf(t, k)
}

func (w *world) setTimerOf(t *rapid.T, k int) {
	w.bodies++
	tm := timer{there: true, value: strconv.Itoa(w.bodies), at: w.unique()}
	x, args := "in 2 h", []any{"set", w.key(k), tm.value, "pxat", tm.at}
	switch rapid.IntRange(0, 6).Draw(t, "life") {
	case 0:
		tm, x, args = timer{there: true, value: tm.value, short: true}, "in 2 ms", []any{"set", w.key(k), tm.value, "px", short.Milliseconds()}
	case 1:
		tm.eternal, tm.at, x, args = true, 0, "never", args[:3]
	case 2, 3:
		if is := w.timers[k]; is.there && is.at != 0 {
			tm.at, x, args[4] = is.at, "at the same time as before", is.at
		}
	}
	w.say("producer sets timer %d to %s, to expire %s", k, tm.value, x)
	w.command(args)
	w.timers[k] = tm
	if tm.short {
		w.passShort()
	}
}

// setOver lets a notice die, has a producer set a timer under its key, and redrives or
// resends the dead letter before any instance has seen the timer.
func (w *world) setOver(t *rapid.T) {
	k, n := w.draw(t)
	if !w.ready(k) || n.awaits {
		t.SkipNow()
	}
	in := pick(t, "instance", w.instances)
	c := w.newCall(t, in)
	c.keys, c.lasts = []int{k}, true
	w.makeClaim(t, in, c, "claims", arrives)
	j := in.jobs[len(in.jobs)-1]
	j.stage = failed
	e := w.outcome(t, j)
	e.ending, e.notice.Reason = store.EndDead, notice.ReasonRejected
	w.end(t, in, j, e, arrives)
	resends := rapid.Bool().Draw(t, "is resent")
	if resends {
		w.look()
		w.readToResend(t, k)
	}
	w.setTimerOf(t, k)
	w.look()
	if resends {
		w.resendRead(t, w.resends[len(w.resends)-1])
		return
	}
	w.amendTo(t, k, store.Redrive, drawWhen(t), drawFate(t))
}

// changeTimer has a producer delete a timer or change its expiry.
func (w *world) changeTimer(t *rapid.T) {
	k, _ := w.draw(t)
	tm := &w.timers[k]
	was := *tm
	what, at := rapid.IntRange(0, 3).Draw(t, "change"), w.unique()
	w.say("producer: %s timer %d", []string{"deletes", "makes eternal", "moves", "shortens"}[what], k)
	args := [][]any{{"del", w.key(k)}, {"persist", w.key(k)}, {"pexpireat", w.key(k), at}, {"pexpire", w.key(k), short.Milliseconds()}}[what]
	w.command(args)
	if !was.there {
		return
	}
	switch what {
	case 0:
		*tm = timer{}
	case 1:
		*tm = timer{there: true, value: was.value, eternal: true}
	case 2:
		*tm = timer{there: true, value: was.value, at: at}
	case 3:
		*tm = timer{there: true, value: was.value, short: true}
		w.passShort()
	}
}

// moveOwn has a client change the expiry of a timer that the service has just set, or set its own
// timer with the same value. An instance checks the timer before it has got all of the timer's
// events, and perhaps a second time.
func (w *world) moveOwn(t *rapid.T) {
	k, _ := w.draw(t)
	in := pick(t, "instance", w.instances)
	w.bodies++
	w.send(t, in, k, store.Request{Key: w.key(k), Delay: long, OnDuplicate: store.Replace,
		Content: notice.Content{Body: []byte(strconv.Itoa(w.bodies))}}, "schedules", arrives)
	w.look()
	at := w.unique()
	if rapid.Bool().Draw(t, "is moved") {
		w.say("producer: moves timer %d", k)
		w.command([]any{"pexpireat", w.key(k), at})
		w.timers[k].at, w.timers[k].eternal = at, false // it may be a producer's that never expired
	} else {
		w.say("producer sets timer %d to 0, as the service does, to expire in 2 h", k)
		w.command([]any{"set", w.key(k), "0", "pxat", at})
		w.timers[k] = timer{there: true, value: "0", at: at}
	}
	w.look()
	w.hears(t, in, max(len(in.events)-rapid.IntRange(0, 2).Draw(t, "events still to come"), 0))
	w.look()
	if rapid.Bool().Draw(t, "scans") {
		w.lookAll(t)
	}
}

func (w *world) command(args []any) {
	if err := w.plain.Do(w.ctx, args...).Err(); err != nil {
		w.t.Fatalf("%v: %v", args, err)
	}
}

// event is an event of Redis for one of the keys.
type event struct {
	key  int
	name string
}

// collect queues the events that Redis has sent for each instance.
func (w *world) collect() {
	if w.kind != adoption {
		return
	}
	for _, e := range w.events(w.ctx, w.t) {
		for _, in := range w.instances {
			in.events = append(in.events, e)
		}
	}
}

// told summarizes the events of a key that an instance got since it last read the timer.
type told struct {
	event, removed, expired bool
	value                   string // "", set, set and expire, expire

	// Of a second check.
	compared bool
	expire   int64 // the expiry in the first check
}

func (h told) and(name string) told {
	if name == "expired" {
		h.expired = true
		return h
	}
	h.event = true
	switch {
	case name == "del":
		h.removed, h.value = true, ""
	case name == "expire" && h.value == "set":
		h.value = "set and expire"
	case name == "set" || name == "expire":
		h.value = name
	default:
		h.value = ""
	}
	return h
}

// then adds the events of a later check.
func (h told) then(later told) told {
	switch {
	case !later.event:
		later.value = h.value
	case h.value == "set" && later.value == "expire":
		later.value = "set and expire"
	}
	later.event, later.removed, later.expired = h.event || later.event, h.removed || later.removed, h.expired || later.expired
	return later
}

// hear has an instance handle some of its queued events.
func (w *world) hear(t *rapid.T, in *instance) {
	if len(in.events) == 0 && len(in.told) == 0 {
		t.SkipNow()
	}
	w.hears(t, in, rapid.IntRange(0, len(in.events)).Draw(t, "events"))
}

func (w *world) hearAll(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	if len(in.events) == 0 && len(in.told) == 0 {
		t.SkipNow()
	}
	w.hears(t, in, len(in.events))
}

func (w *world) hears(t *rapid.T, in *instance, n int) {
	w.say("%s hears %v", in.id, in.events[:n])
	for _, e := range in.events[:n] {
		in.adopter.Event(nil, w.key(e.key), e.name)
		if e.name != "evicted" {
			in.told[e.key] = in.told[e.key].and(e.name)
		}
	}
	in.events = in.events[n:]
	w.follows(t, in, "", in.told, func() error { return in.adopter.Drain(w.ctx) })
}

// hearNothing drops an instance's queued events, as a broken subscription does.
func (w *world) hearNothing(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	if len(in.events) == 0 {
		t.SkipNow()
	}
	w.say("%s never hears %v", in.id, in.events)
	in.events = nil
}

// follow has an instance check a timer, as a call of the API does.
func (w *world) follow(t *rapid.T) {
	k, _ := w.draw(t)
	in := pick(t, "instance", w.instances)
	w.follows(t, in, " looks at timer "+strconv.Itoa(k), map[int]told{k: {}}, func() error {
		w.following.asked = true
		return in.adopter.Follow(w.ctx, w.key(k))
	})
}

// lookAll has an instance check all timers, and compare all notices with their timers.
func (w *world) lookAll(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	if len(in.told) > 0 {
		t.SkipNow()
	}
	all := map[int]told{}
	for k := range w.notes {
		all[k] = told{}
	}
	w.follows(t, in, " looks at all timers", all, func() error { return in.adopter.Look(w.ctx) })
}

// expireBetweenScripts lets a timer expire between the two scripts of its adoption. Another
// instance handles the event in that time.
func (w *world) expireBetweenScripts(t *rapid.T) {
	k, n := w.draw(t)
	in, other := w.instances[0], w.instances[1]
	w.bodies++
	tm := timer{there: true, value: strconv.Itoa(w.bodies)}
	claims := rapid.Bool().Draw(t, "is claimed")
	w.say("producer sets timer %d to %s, which expires before it is adopted", k, tm.value)
	w.command([]any{"set", w.key(k), tm.value, "px", 25})
	tm.at = w.plain.PExpireTime(w.ctx, w.key(k)).Val().Milliseconds()
	if tm.at <= 0 { // the timer has expired already, on a busy machine
		w.timers[k] = timer{}
		return
	}
	w.timers[k] = tm
	w.between = func() {
		w.pass(time.UnixMilli(tm.at))
		w.timers[k].short = true
		w.look()
		w.hears(t, other, len(other.events))
		if claims && n.claimable() {
			c := w.newCall(t, other)
			c.keys, c.lasts = []int{k}, true
			w.makeClaim(t, other, c, "claims", arrives)
		}
	}
	w.follows(t, in, " looks at timer "+strconv.Itoa(k), map[int]told{k: {}}, func() error {
		w.following.asked = true
		return in.adopter.Follow(w.ctx, w.key(k))
	})
	if w.between != nil { // the timer had expired before it was seen
		w.between = nil
	}
	w.pass(time.UnixMilli(tm.at))
	if w.timers[k] == tm {
		w.timers[k].short = true
	}
}

// follows runs do on an instance's adopter, and compares the operations with the model.
func (w *world) follows(t *rapid.T, in *instance, what string, heard map[int]told, do func() error) {
	f, after := drawFate(t), 0
	if f != arrives {
		after = rapid.IntRange(0, 2).Draw(t, "after")
		w.say("%s%s%s of script %d", in.id, what, f, after+1)
	} else if what != "" {
		w.say("%s%s", in.id, what)
	}
	was := w.following
	w.following = &following{t: t, heard: heard, ops: map[int]intake.Operation{}}
	w.wire.loseAfter(after, f)
	err := do()
	left, _ := w.wire.lost()
	w.wire.lose(arrives)
	is := w.following
	w.following = was
	if err == nil {
		is.end(in)
	}
	if (err != nil) != (f != arrives && left == arrives) {
		t.Fatalf("%s%s%s: %v", in.id, what, f, err)
	}
	if err != nil {
		return // the adopter keeps the events for the next try
	}
	if len(is.ops) > 0 {
		t.Fatalf("%s has done nothing of %v", in.id, is.ops)
	}
	for k, h := range heard {
		if h.expired && w.notes[k].state == "" && !w.timers[k].there {
			t.Fatalf("the timer of key %d has expired, %s has handled the event, and the key has no notice", k, in.id)
		}
	}
	clear(heard)
}

// options returns the Redis options for a kind of world. In worlds of adoption a key
// expires only when it is accessed, so that each event belongs to a step.
func (k kind) options() []testkit.Option {
	if k != adoption {
		return nil
	}
	return []testkit.Option{testkit.WithConfig("enable-debug-command yes", "notify-keyspace-events Kg$x")}
}

// listen subscribes to Redis's events, and turns the active expiry off.
func (l *lab) listen(t *testing.T) {
	t.Helper()
	if err := l.plain.Do(t.Context(), "debug", "set-active-expire", "0").Err(); err != nil {
		t.Fatal(err)
	}
	l.heard = l.plain.PSubscribe(t.Context(), keys.Keyspace(l.srv.DB(), prefix))
	t.Cleanup(func() { _ = l.heard.Close() })
	if _, err := l.heard.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// events returns the events that Redis has sent since the last call.
func (l *lab) events(ctx context.Context, t *rapid.T) (list []event) {
	if err := l.heard.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := l.heard.Receive(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *redis.Message:
			if name, ok := keys.KeyspaceKey(m.Channel); ok {
				list = append(list, event{int(name[len(name)-1] - '0'), m.Payload})
			}
		case *redis.Pong:
			return list
		}
	}
}

func newAdopter(w *world, in *instance) *intake.Adopter {
	table, err := route.NewTable([]*route.Route{{Name: "r", Prefix: prefix, Adopt: true}})
	if err != nil {
		w.t.Fatal(err)
	}
	return intake.NewAdopter(intake.AdopterOptions{Store: &adoptStore{Redis: intake.Redis{Store: in.store}, w: w, in: in}, Routes: table,
		Space: space, MaxBody: 1 << 10, Confirm: time.Nanosecond, Logger: zap.NewNop()})
}
