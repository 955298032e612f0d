package store

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// The rows of the table Transitions whose scripts have callers in other packages, or no caller that changes a single notice. The calls
// send the scripts as their headers describe.

// timeKey gets the time that a script has read, and is deleted after the call.
const timeKey = "matrix:time"

// tickCall stores a notice as the occurrence of a definition, which is deleted afterwards: the model knows only notices. skipped is the
// state if the tick is skipped, and earlier names the earlier occurrences.
func tickCall(skipped, earlier string) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) { return r.tick(n, skipped, earlier) }
}

func (r *rig) tick(n *stored, skipped, earlier string) (string, error) {
	names, key := []string{r.s.space.Recurring(partition), r.s.space.Ticks(partition), r.s.space.Definitions(partition)}, "app1:a:b:definition"
	if err := errors.Join(r.c.HSet(r.ctx, names[0], key, "{}\n{}").Err(), r.c.ZAdd(r.ctx, names[1], redis.Z{Member: key}).Err()); err != nil {
		return "", err
	}
	args := []any{r.s.space.ClaimPrefix(0), r.s.space.Wake(), partition.Wake(), r.s.Timers.Mode(prefix), "", keys.AppendDigest(nil, n.key),
		"-", key, "{}", "{1}", "{2}", skipped, "", n.key, fmt.Sprintf("%sr+%d", earlier, soon.Milliseconds()), tail}
	call := creation{Partition: partition, since: r.s.Sight(), args: args}
	v, err := r.s.w.List(tickScript.Op, r.s.Layout.Call(r.ctx, tickScript, r.s.space.Base(0), call.prepare(r.s)))
	v = r.s.Foreign(prefix, v)
	if err == nil && r.s.o.Cluster {
		due, _ := v[1].(int64)
		r.s.Timers.arm(r.ctx, prefix, []timer{{key: n.key, due: due, attempt: 1}}, wire.Micros(v[0]))
	}
	if text := r.c.HGet(r.ctx, names[0], key).Val(); err == nil && text != "{1}\n{}" && text != "{2}\n{}" { // stored, or occupied
		err = fmt.Errorf("the definition is %q", text)
	}
	return tail, errors.Join(err, r.c.Del(r.ctx, names...).Err())
}

// clocked makes the time of a script known, also of one that does not return it.
const clocked = `
local redis = setmetatable({call = function(command, ...)
  local v = redis.call(command, ...)
  if command == 'TIME' then redis.call('SET', '` + timeKey + `', string.format('%.0f', v[1] * 1000000 + v[2])) end
  return v
end}, {__index = redis})
`

var matrixScripts sync.Map // by path: *redis.Script

// script calls a script, whose path is relative to this package.
func (r *rig) script(path string, ks []string, args ...any) error {
	sc, ok := matrixScripts.Load(path)
	if !ok {
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sc, _ = matrixScripts.LoadOrStore(path, redis.NewScript(clocked+WithParts(string(source))))
	}
	reply, err := sc.(*redis.Script).Run(r.ctx, r.c, ks, args...).Result()
	if err != nil {
		return err
	}
	if list, ok := reply.([]any); ok {
		r.s.Foreign(prefix, list)
	}
	us, err := r.c.GetDel(r.ctx, timeKey).Int64()
	if errors.Is(err, redis.Nil) { // the script reads no time
		return nil
	}
	r.us.Store(us)
	return err
}

// produceCall schedules a notice by the script of producers.
func produceCall(mode, when string) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		ks := append(r.space.States(partition), n.key)
		if w.cluster() { // the timer is in another slot
			ks = ks[:4]
		}
		at := when
		if at == "past" {
			at = "=" + strconv.FormatInt(w.now()-anHour, 10)
		}
		return tail, r.script("../../deploy/schedule.lua", ks, n.key, at, mode, "new")
	}
}

// produceLasting schedules a notice that expires.
func produceLasting(r *rig, w *world, n *stored) (string, error) {
	ks := append(r.space.States(partition), n.key)
	if w.cluster() {
		ks = ks[:4]
	}
	return lastingTail, r.script("../../deploy/schedule.lua", ks, n.key, "+7200000", "replace", "new", "", "", "", fmt.Sprintf("+%d", life))
}

// produced is what the script of producers does: as the service, but it reports no keys of other programs and sets no timer in a cluster.
func produced(to func(c *change)) func(c *change) {
	return func(c *change) {
		to(c)
		c.foreign = 0
		if c.cluster() {
			c.names = maps.Clone(c.start.names)
		}
	}
}

// handTo is the argument of handover.lua.
func (w *world) handTo() string {
	if w.history {
		return "1000 -"
	}
	return ""
}

// released is when the pause p1 has ended.
func (w *world) released() int64 { return w.started + anHour/2 }

func releaseCall(r *rig, w *world, _ *stored) (string, error) {
	return "", r.script("../receivers/lua/release.lua", []string{r.space.Shadow(partition)}, "p1", w.released(), 1000, "0.5", "0", 10,
		r.space.Wake(), partition.Wake())
}

// release takes a notice off the list. It is released only if its score is the one that the hold wrote.
func release(c *change) {
	if c.n.pause == "p1" && c.n.due == c.n.listed {
		c.n.due = float64(c.released()+500) + paused
	}
	c.n.pause, c.n.listed = "", 0
}

func forgetCall(r *rig, _ *world, n *stored) (string, error) {
	return "", r.script("../jobs/lua/delete.lua", r.space.States(partition), "w", partition.Wake(), n.key)
}

func forget(c *change) {
	c.leave()
	c.n.record, c.n.dead, c.n.settled = "", 0, 0
}

func trimCall(r *rig, _ *world, _ *stored) (string, error) {
	ks := []string{r.space.Settled(partition), r.space.Records(partition), r.space.Layout(0)}
	return "", r.script("lua/trim.lua", ks, 1, 1000, 10, 0, 1<<20, prefix, 0)
}

func trimmed(c *change) { c.n.record, c.n.settled = "", 0 }

// buryWidth is the length of the period of a tombstone's bucket.
const buryWidth = int64(1000)

func buryCall(r *rig, _ *world, n *stored) (string, error) {
	return "", r.script("lua/bury.lua", []string{r.space.Settled(partition), r.space.Records(partition), r.space.Layout(0)}, prefix, buryWidth,
		1<<20, n.key, fmt.Sprintf("%x", sha1.Sum([]byte(n.record))), keys.AppendDigest(nil, n.key), "grave")
}

func buried(c *change) {
	at := int64(math.Floor(c.n.settled))
	c.bucket = strconv.FormatInt(at-at%buryWidth+buryWidth, 10)
	c.tombs[string(keys.AppendDigest(nil, c.n.key))] = "grave"
	c.add("trimmed", &entry{kind: "hash", hash: map[string]string{prefix: strconv.FormatInt(at, 10)}})
	trimmed(c)
}

// add adds a key of the shard that belongs to no state.
func (w *world) add(name string, e *entry) {
	if w.more == nil {
		w.more = database{}
	}
	w.more[name] = e
}

// adoptCall turns the timer of a notice into a notice, moves it to the timer's expiry, or cancels it. In a cluster, and if the key is
// none that could be adopted, the script does not check the timer.
func adoptCall(op string, lasts bool) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		tail := tail
		till := ""
		if lasts {
			till = strconv.FormatInt(w.adoptedDue(n)+life, 10)
			tail = `,"expires":` + till + lastingTail
		}
		if op != "a" {
			tail = till
		}
		p := w.names[n.key]
		check, digest, score := "1", fmt.Sprintf("%x", sha1.Sum([]byte(p.text))), ""
		if p.text == "" || p.until.at == 0 || w.cluster() {
			check = "0"
		}
		if n.due != 0 {
			score = text(n.due)
		}
		retains := "0"
		if w.retain {
			retains = "1"
		}
		ks := append(r.space.States(partition), r.space.Layout(0))
		return tail, r.script("../intake/lua/adopt.lua", ks, r.space.ClaimPrefix(0), r.space.Wake(), partition.Wake(), check, retains, w.handTo(),
			n.key, op, digest, w.adoptedDue(n)-1, score, madeIn(n.record), tail)
	}
}

// adoptedDue is the due time of an adopted timer.
func (w *world) adoptedDue(n *stored) int64 {
	if p := w.names[n.key]; p.text != "" && p.until.at != 0 {
		return p.until.at + 1
	}
	return w.started + anHour/2
}

func adoptNew(c *change) {
	due, old := c.adoptedDue(c.n), c.n.record
	c.unlist()
	c.join(due, max(c.birth(), madeIn(old)+1), 0)
	if old != "" && c.n.settled == 0 {
		c.hand(c.letter("r"), old)
	}
	c.n.token, c.n.dead, c.n.settled = "", 0, 0
	c.n.record = created(due, max(c.birth(), madeIn(old)+1), c.given)
	c.n.due, c.n.near = float64(due), false
}

// fillCall brings the body of a notice whose timer had expired before its value could be read: the value was read before.
func fillCall(r *rig, w *world, n *stored) (string, error) {
	ks := append(r.space.States(partition), r.space.Layout(0))
	return tail, r.script("../intake/lua/adopt.lua", ks, r.space.ClaimPrefix(0), r.space.Wake(), partition.Wake(), "1", "1", w.handTo(),
		n.key, "a", fmt.Sprintf("%x", sha1.Sum([]byte("b"))), w.started-minute, "", 0, tail)
}

func filled(c *change) {
	if _, exists := c.names[c.n.key]; exists {
		return
	}
	c.unlist()
	due, generation := c.started-minute+1, max(c.birth(), madeIn(c.n.record)+1)
	c.join(due, generation, 0)
	c.n.record = created(due, generation, c.given)
	c.n.due, c.n.near = float64(due)+0.5, false
}

func adoptMove(c *change) {
	due := c.adoptedDue(c.n)
	c.unlist()
	c.join(due, madeIn(c.n.record), 0)
	if c.given != "" {
		c.n.record = lasting(c.n.record, due+life)
	}
	c.n.record = redated(c.n.record, due)
	c.n.due, c.n.near = float64(due), false
}

func adoptCancel(c *change) {
	c.unlist()
	c.leave()
	c.hand("c", c.n.record)
	c.finish(float64(c.now())+0.5, 0)
}

// replayCall schedules a notice again from the history, with its own id or a new one.
func replayCall(anew string, delay int64) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		ks := append(append([]string{r.space.Base(0) + "progress"}, r.space.States(partition)...), r.space.Layout(0))
		return tail, r.script("../jobs/lua/replay.lua", ks, r.space.Wake(), 0, anew, minute, 1, prefix, r.s.Timers.Mode(prefix),
			1, n.key, 1, made, delay, tail)
	}
}

// progress is what a replay notes of its only item.
func (c *change) progress(result string) {
	c.add("progress", &entry{kind: "hash", hash: map[string]string{"last": "1", result: "1"}, until: expiry{c.now() + minute, true}})
}

func replay(anew bool, delay int64) func(c *change) {
	return func(c *change) {
		if _, taken := c.names[c.n.key]; taken && c.mode == "adopting" {
			c.progress("pending")
			return
		}
		due, generation, kept := c.now(), made, c.n.position
		if delay > 0 {
			due = c.after(delay)
		}
		promised := due
		if c.n.dead == 0 || !c.blocks() {
			kept = ""
		} else {
			promised = dueIn(c.n.record, due)
		}
		if anew {
			generation = max(c.birth(), madeIn(c.n.record)+1)
		}
		if c.n.record != "" {
			c.leave()
		}
		c.n.dead, c.n.settled = 0, 0
		c.schedule(0, due, "0", 1, false, untimed)
		c.n.record = created(due, generation, c.given)
		if c.cluster() && due > c.now() { // package jobs sets the timer
			delete(c.names, c.n.key)
			c.foreign = 0
			if p, had := c.start.names[c.n.key]; had {
				c.names[c.n.key] = p
			}
		}
		if kept == "" {
			kept = positionAt(promised, generation, 1)
		}
		c.put(kept)
		c.progress("sent")
	}
}

// notReplayed is what a replay notes of a notice that it leaves alone.
func notReplayed(c *change) {
	switch {
	case c.n.due != 0:
		c.progress("pending")
	case c.n.settled != 0:
		c.progress("cancelled")
	}
}

// exportCall takes a notice out, for another shard or for another Redis.
func exportCall(near string) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		ks := append(r.space.States(partition), r.space.Moving(0), r.space.Layout(0))
		return "", r.script("lua/moveout.lua", ks, r.space.ClaimPrefix(0), "9", prefix, 1<<20, 0, near, r.s.Timers.Mode(prefix), "w",
			partition.Wake(), n.key)
	}
}

func export(far bool) func(c *change) {
	return func(c *change) {
		if c.n.record == "" || claimed(c.n.due) {
			return
		}
		score := func(score float64) string {
			if score == 0 {
				return "-"
			}
			return text(score)
		}
		at := score(c.n.due)
		if c.n.parked != 0 {
			at = strconv.FormatInt(c.now(), 10) + ".5"
		}
		what := strings.Join([]string{at, score(c.n.dead), score(c.n.settled)}, " ")
		if c.n.position != "" {
			what += "@" + c.n.position
		}
		if c.n.pause != "" && fraction(c.n.due) == paused {
			what += "~" + c.n.pause
		}
		number := strconv.FormatInt(c.us, 10)
		c.add("moving", &entry{kind: "hash", hash: map[string]string{"": number + " 9 " + prefix, c.n.key: what + " " + c.n.record}})
		c.batch = number
		if far {
			there := "settled"
			switch {
			case c.n.due != 0:
				there = text(c.n.due)
			case c.n.dead != 0:
				there = "dead"
			}
			c.add("elsewhere", &entry{kind: "hash", hash: map[string]string{c.n.key: there}})
			if !c.cluster() { // package move deletes it
				c.disarm(c.n.due)
			}
		}
		c.unlist()
		c.leave()
		c.n.record, c.n.due, c.n.near, c.n.dead, c.n.settled = "", 0, false, 0, 0
	}
}

// endCall takes a notice out and ends the move: the notice has arrived, or it is put back because it stays.
func endCall(near string, stay ...any) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		if _, err := exportCall(near)(r, w, n); err != nil {
			return "", err
		}
		args := append([]any{r.us.Load(), "w", partition.Wake()}, stay...)
		defer r.us.Store(r.us.Load()) // the time of the export stands in the layout
		return "", r.script("lua/moveend.lua", append(r.space.States(partition), r.space.Moving(0), r.space.Layout(0)), args...)
	}
}

func exported(far bool) func(c *change) {
	return func(c *change) {
		export(far)(c)
		delete(c.more, "moving")
	}
}

// putBack is the end of a move that leaves the notice where it was: a parked one is due now.
func putBack(far bool) func(c *change) {
	return func(c *change) {
		was := *c.n
		export(far)(c)
		if c.batch == "" {
			return
		}
		delete(c.more, "moving")
		delete(c.more, "elsewhere")
		c.promote() // the successor's turn has come, and the claim's gate decides again
		c.n.record, c.n.due, c.n.near, c.n.dead, c.n.settled = was.record, was.due, was.near, was.dead, was.settled
		if was.position != "" {
			c.put(was.position)
		}
		if was.parked != 0 {
			c.n.due = float64(c.now()) + 0.5
		}
		if was.pause != "" && fraction(was.due) == paused {
			c.n.pause, c.n.listed = was.pause, was.due
		}
	}
}

// markCall marks a notice as stored on the other side of a migration, or removes its mark.
func markCall(sign string) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, _ *world, n *stored) (string, error) {
		elsewhere := r.space.Base(0) + "elsewhere"
		if sign == "-" {
			if err := r.c.HSet(r.ctx, elsewhere, n.key, "?").Err(); err != nil {
				return "", err
			}
		}
		return "", r.script("../move/lua/marks.lua", []string{elsewhere, r.space.Records(partition), r.space.Layout(0)}, sign, n.key)
	}
}

func marked(c *change) {
	c.add("elsewhere", &entry{kind: "hash", hash: map[string]string{c.n.key: "?"}})
}

// arriving is a notice of the subject's key that is imported: a later generation, and held if pause is not empty, or one that expires.
func arriving(w *world, pause string) (due int64, score float64, position, record string) {
	due = w.started + anHour
	record = fmt.Sprintf(`{"due":%d,"made":%d,"text":"new"}`, due, made+1)
	switch score = float64(due); pause {
	case "":
	case lasts:
		record = lasting(record, due+life)
	default:
		score += paused
	}
	return due, score, positionAt(due, made+1, 1), record
}

const lasts = "expires" // instead of a pause

// importCall imports a notice from another shard, or from another Redis.
func importCall(far bool, pause string) func(r *rig, w *world, n *stored) (string, error) {
	return func(r *rig, w *world, n *stored) (string, error) {
		_, score, position, record := arriving(w, pause)
		what := text(score) + " - -"
		if w.ordered() {
			what += "@" + position
		}
		if pause != "" && pause != lasts {
			what += "~" + pause
		}
		mode, ks := "", append(r.space.States(partition), r.space.Layout(0))
		args := []any{n.key, what + " " + record}
		if far {
			mode, args = r.s.Timers.Mode(prefix), append(args, "5")
		}
		return record, r.script("lua/movein.lua", ks, append([]any{"7", 1, r.space.Wake(), partition.Wake(), mode}, args...)...)
	}
}

func imported(far bool, pause string) func(c *change) {
	return func(c *change) {
		due, score, position, record := arriving(c.world, pause)
		c.came = "1 "
		if far && c.n.record != "" && !c.cluster() { // package move deletes it
			c.disarm(c.n.due)
		}
		if c.n.record != "" {
			c.unlist()
		}
		c.put(position)
		c.n.record, c.n.due, c.n.near, c.n.dead, c.n.settled = record, score, false, 0, 0
		if far && fraction(score) == 0 && !c.armMoved(due) {
			c.n.due = score + untimed
		}
		if fraction(score) == paused {
			c.n.pause, c.n.listed = pause, score
		}
	}
}

// armMoved sets the timer of a notice from another Redis, with the value that it had there. In a cluster package move sets it.
func (c *change) armMoved(due int64) bool {
	defer func(n int) { c.foreign = n }(c.foreign) // a move does not report keys of other programs
	return c.cluster() || c.arm(0, due, "5", 5, false)
}

// stays is what an import notes of a notice that stays in its source.
func stays(c *change) { c.came = "1 " + c.n.key }

func rehomeCall(r *rig, _ *world, n *stored) (string, error) {
	to, ks := partition.Under(besidePrefix), r.space.States(partition)
	return "", r.script("../reconcile/lua/rehome.lua", append(ks, r.space.States(to)...), r.space.ClaimPrefix(0), "w", to.Wake(), n.key, "")
}

// rehomed moves a notice to the other prefix. A held one is released, a parked one is due now.
func rehomed(c *change) {
	moved := *c.n
	if moved.record == "" {
		moved = stored{key: moved.key}
	}
	switch {
	case fraction(moved.due) == paused && moved.pause != "":
		moved.due = float64(c.now()) + paused
	case moved.parked != 0:
		moved.due = c.at(c.now(), moved.due)
	}
	if c.ordered() && moved.due != 0 && moved.position == "" {
		moved.position = positionAt(dueIn(moved.record, 0), madeIn(moved.record), 0)
	}
	moved.parked, moved.pause, moved.listed = 0, "", 0
	c.beside = &world{route: besidePrefix, order: c.order, notices: map[string]*stored{moved.key: &moved}}
	c.unlist()
	c.leave()
	c.n.record, c.n.due, c.n.dead, c.n.settled = "", 0, 0, 0
}

// away are the classes of all that is stored and may leave.
var away = []string{"pending", "dead", "delivered", "cancelled", "taken"}

// arrives are the classes that an imported pending notice replaces.
var arrives = []string{"absent", "tombstone", "without a record", "taken", "delivered", "cancelled", "dead"}

// scripts are the rows of this file.
var scripts = []rule{
	{name: "schedule by a producer", from: []string{"absent", "without a record"}, call: produceCall("reject", "+7200000"),
		to: produced(replaced((*change).soonDue))},
	{name: "schedule by a producer in the past", from: []string{"absent", "without a record"}, call: produceCall("keep", "past"),
		to: produced(replaced((*change).pastDue))},
	{name: "replace by a producer", from: append(living, "delivered", "cancelled", "taken", "absent", "tombstone"),
		call: produceCall("replace", "+7200000"), to: produced(replaced((*change).soonDue))},
	{name: "replace by a producer in the past", from: append(living, "delivered", "cancelled", "taken", "absent", "tombstone"),
		call: produceCall("replace", "past"), to: produced(replaced((*change).pastDue))},
	{name: "replace by a producer by one that expires", few: true, from: append(living, "delivered", "cancelled", "taken", "absent",
		"tombstone"), call: produceLasting, to: produced(replaced((*change).soonDue))},
	{name: "release", from: []string{"pending"}, call: releaseCall, to: release},
	{name: "forget", from: []string{"dead", "delivered", "cancelled", "taken", "absent", "tombstone"}, call: forgetCall, to: forget},
	{name: "trim", from: []string{"delivered", "cancelled"}, call: trimCall, to: trimmed},
	{name: "bury", from: []string{"delivered", "cancelled"}, call: buryCall, to: buried},
	{name: "adopt new", from: append(living, "delivered", "cancelled", "taken", "absent", "tombstone"), call: adoptCall("a", false),
		to: adoptNew},
	{name: "adopt new that expires", few: true, from: append(living, "delivered", "cancelled", "taken", "absent", "tombstone"),
		call: adoptCall("a", true), to: adoptNew},
	{name: "adopt move with an expiry", few: true, from: []string{"pending"}, asked: true, call: adoptCall("m", true), to: adoptMove},
	{name: "adopt fill", from: []string{"without a body"}, asked: true, call: fillCall, to: filled},
	{name: "adopt move", from: []string{"pending"}, asked: true, call: adoptCall("m", false), to: adoptMove},
	{name: "adopt cancel", from: []string{"pending"}, asked: true, call: adoptCall("c", false), to: adoptCancel},
	{name: "replay", from: []string{"absent", "tombstone", "delivered", "dead", "taken", "without a record"}, call: replayCall("0", 0),
		to: replay(false, 0), also: notReplayed},
	{name: "replay for later", from: []string{"absent", "tombstone", "delivered", "dead", "taken", "without a record"},
		call: replayCall("0", anHour), to: replay(false, anHour), also: notReplayed},
	{name: "replay with a new id", from: []string{"absent", "tombstone", "delivered", "dead", "taken", "without a record"},
		call: replayCall("1", anHour), to: replay(true, anHour), also: notReplayed},
	{name: "export to another shard", from: away, but: []string{"without a record", "lapsed", "claimed without a key"}, call: exportCall(""),
		to: export(false)},
	{name: "export to another Redis", from: away, but: []string{"without a record", "lapsed", "claimed without a key"}, call: exportCall("1"),
		to: export(true)},
	{name: "move to another shard", from: away, but: []string{"without a record", "lapsed", "claimed without a key"},
		call: endCall(""), to: exported(false)},
	{name: "move to another Redis", from: away, but: []string{"without a record", "lapsed", "claimed without a key"},
		call: endCall("1"), to: exported(true)},
	{name: "put back", from: away, but: []string{"without a record", "lapsed", "claimed without a key"}, call: endCall("", subject),
		to: putBack(false)},
	{name: "put back from another Redis", from: away, but: []string{"without a record", "lapsed", "claimed without a key"},
		call: endCall("1", subject), to: putBack(true)},
	{name: "mark", from: []string{"absent", "tombstone", "without a record"}, call: markCall("+"), to: marked},
	{name: "unmark", call: markCall("-")},
	{name: "rehome", from: append(away, "absent", "tombstone"), call: rehomeCall, to: rehomed},
	{name: "import", from: arrives, call: importCall(false, ""), to: imported(false, ""), also: stays},
	{name: "import of a held notice", from: arrives, call: importCall(false, "p3"), to: imported(false, "p3"), also: stays},
	{name: "import of one that expires", few: true, from: arrives, call: importCall(false, lasts), to: imported(false, lasts), also: stays},
	{name: "import from another Redis", from: append(arrives, "pending"), but: []string{"ahead"}, call: importCall(true, ""),
		to: imported(true, ""), also: stays},
}
