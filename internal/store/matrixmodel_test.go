package store

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// This file is the table Transitions of docs/architecture.md.

// change is one call of a transition: the world that it leaves, and what the call was given.
type change struct {
	*world
	start   *world // before the call
	n       *stored
	before  float64 // the score before the claim that is settled, as its holder knows it
	given   string  // the record, or its tail from ,"made" on, that the call was given
	touched map[string]bool
}

// rule is a row of the table.
type rule struct {
	name  string
	from  []string             // the classes of states that it changes; see wider
	but   []string             // classes within these that it does not change
	asked bool                 // the caller, not the script, checks the state
	due   func(w *world) int64 // of a change that a notice refuses that has expired by then
	few   bool                 // of a variant of another rule: only some cells are checked
	lost  bool                 // a settle whose claim Redis has lost: the score is the one before the claim
	call  func(r *rig, w *world, n *stored) (given string, err error)
	to    func(c *change)
	// also follows the call in all other states, which change nothing but the marker of the call's own claim. Nil = nothing.
	also func(c *change)
}

// wider are the classes that contain others.
var wider = map[string]string{"lapsed": "due", "due": "pending", "postponed": "pending", "ahead": "pending",
	"without a body": "due", "without a record": "pending", "unreadable": "pending", "handed without a key": "claimed without a key",
	"claimed without a key": "pending"}

// applies reports whether the rule changes a notice of a class.
func (r *rule) applies(class string) bool {
	for ; class != ""; class = wider[class] {
		if slices.Contains(r.but, class) {
			return false
		}
		if slices.Contains(r.from, class) {
			return true
		}
	}
	return false
}

// follow returns the world after the call.
func (r *rule) follow(before *world, class, given string) *world {
	w := before.fork()
	c := &change{world: w, start: before, n: w.of(subject), given: given, before: number(beforeClaim(w)), touched: map[string]bool{}}
	if r.lost {
		c.before = c.n.due
	}
	switch {
	case r.due != nil && lapse(c.n.record) != 0 && lapse(c.n.record) <= max(r.due(w), w.now()):
	case r.applies(class):
		r.to(c)
	case r.also != nil:
		r.also(c)
	}
	c.promote()
	return w
}

// part is the fraction of a score that is due now, from the µs of the call.
func (w *world) part() float64 { return 0.535 + float64(w.us%1000)/2200 }

// at is a time with the fraction of a score that was parked or becomes due now: expired leases stay counted.
func (w *world) at(ms int64, old float64) float64 {
	if claimed(old) {
		return float64(ms) + fraction(old)
	}
	return float64(ms) + w.part()
}

// leave takes a notice out of its sequence. If it is claimed, a marker holds back the new head.
func (c *change) leave() {
	if c.ordered() {
		c.guard(c.n)
		c.n.position, c.n.parked = "", 0
		c.touched[keys.OrderKey(c.n.key)] = true
	}
}

// guard writes the marker of a claimed notice that is not the head of its sequence any more.
func (c *change) guard(n *stored) {
	if _, has := c.markers[keys.OrderKey(n.key)]; n.token != "" && !has {
		c.mark(n.token, n.key, expiry{n.until.at, true})
	}
}

// join gives the notice a new position.
func (c *change) join(due, made int64, n int) { c.put(positionAt(due, made, n)) }

// put moves the notice to a position. A claimed head that it overtakes gets a marker.
func (c *change) put(position string) {
	if !c.ordered() {
		return
	}
	c.leave()
	name := keys.OrderKey(c.n.key)
	before := c.bySequence()[name]
	c.n.position = position
	if now := c.bySequence()[name]; len(before) > 0 && now[0] != before[0] {
		c.guard(before[0])
	}
}

// keep leaves the notice at its position, or gives it one.
func (c *change) keep(due, made int64) {
	if c.ordered() && c.n.position != "" {
		c.touched[keys.OrderKey(c.n.key)] = true
		return
	}
	c.join(due, made, 0)
}

// free ends the marker of a claim.
func (c *change) free(token string) {
	name := keys.OrderKey(c.n.key)
	if c.ordered() {
		c.touched[name] = true
	}
	if m := c.markers[name]; c.ordered() && m.token == token && m.key == c.n.key {
		delete(c.markers, name)
	}
}

// renew makes the marker of the notice last as long as its new claim.
func (c *change) renew() {
	if m, has := c.markers[keys.OrderKey(c.n.key)]; has && c.ordered() && m.key == c.n.key {
		c.mark(c.n.token, c.n.key, c.n.until)
	}
}

// promote makes the parked heads of the sequences that have changed due now, or when their markers end.
func (c *change) promote() {
	for name, members := range c.bySequence() {
		head := members[0]
		if !c.touched[name] || head.parked == 0 {
			continue
		}
		if m, has := c.markers[name]; has {
			head.due, head.near = c.at(m.until.at+1, head.due), true
			continue
		}
		head.due, head.near, head.parked = c.at(c.now(), head.due), false, 0
	}
}

// owns reports whether the key is the timer of the notice that had a score.
func (w *world) owns(key string, was float64) bool {
	p, has := w.names[key]
	return has && timed(was) && p.until.at == int64(math.Floor(was))-1
}

// disarm deletes the timer of a notice that had a score.
func (c *change) disarm(was float64) {
	if c.owns(c.n.key, was) {
		delete(c.names, c.n.key)
	}
}

func (w *world) cluster() bool { return strings.HasSuffix(w.mode, "cluster") }

func (w *world) adopting() bool { return strings.HasPrefix(w.mode, "adopting") }

var digits = regexp.MustCompile(`^\d+$`)

// arm sets the timer of a notice that had a score and is due at due. In a cluster the notice always gets a score with a timer, and
// the timer's value is the number of the attempt.
func (c *change) arm(was float64, due int64, value string, attempt int, anew bool) (has bool) {
	key := c.n.key
	if due <= c.now() {
		c.disarm(was)
		return false
	}
	if c.cluster() {
		value = strconv.Itoa(attempt)
	}
	found, taken := c.names[key]
	switch {
	case !taken:
		c.names[key] = plain{value, expiry{at: due - 1}}
	case c.owns(key, was) && anew:
		c.names[key] = plain{"1", expiry{at: due - 1}}
	case c.owns(key, was):
		c.names[key] = plain{found.text, expiry{at: due - 1}}
	default: // a producer's or a stranger's
		if !c.adopting() && (found.until.at == 0 || !digits.MatchString(found.text)) {
			c.foreign++
		}
		return c.cluster()
	}
	return true
}

// schedule gives the notice a due time, and the score of a notice with or without a timer. extra is added to the score without one.
func (c *change) schedule(was float64, due int64, value string, attempt int, anew bool, now float64) {
	due = max(due, c.now())
	switch {
	case c.arm(was, due, value, attempt, anew):
		c.n.due = float64(due)
	case due > c.now():
		c.n.due = float64(due) + untimed
	default:
		c.n.due = float64(due) + now
	}
	c.n.near = false
	c.n.looked = 0
}

// unlist removes a notice that is held from the list.
func (c *change) unlist() {
	if fraction(c.n.due) == paused {
		c.n.pause, c.n.listed = "", 0
	}
}

// finish writes the outcome of a notice, and deletes it if nothing is retained.
func (c *change) finish(settled, dead float64) {
	c.n.due, c.n.near, c.n.token, c.n.settled, c.n.dead = 0, false, "", settled, dead
	if !c.retain && dead == 0 {
		c.n.settled, c.n.record = 0, ""
	}
}

// hand adds an entry to the outbox of the history.
func (c *change) hand(how, record string) {
	if c.history {
		c.ended = append(c.ended, how+" "+strconv.FormatInt(c.us, 10)+" "+prefix+" - "+c.n.key+" "+record)
	}
}

// letter is the outcome's letter in the outbox, a capital one for a dead letter.
func (c *change) letter(how string) string {
	if c.n.dead != 0 {
		return strings.ToUpper(how)
	}
	return how
}

// head matches the head of a record.
var head = regexp.MustCompile(`^{"due":(\d+),"made":(\d+)`)

// madeIn is the generation in a record; 0 if the record cannot be read.
func madeIn(record string) int64 {
	if m := head.FindStringSubmatch(record); m != nil {
		n, _ := strconv.ParseInt(m[2], 10, 64)
		return n
	}
	return 0
}

// redated is a record with a new due time. It keeps the one of its creation.
func redated(record string, due int64) string {
	m := head.FindStringSubmatchIndex(record)
	if m == nil {
		return record
	}
	tail, first := record[m[5]:], ""
	if !strings.HasPrefix(tail, `,"first":`) {
		first = `,"first":` + record[m[2]:m[3]]
	}
	return `{"due":` + strconv.FormatInt(due, 10) + record[m[3]:m[5]] + first + tail
}

// dueIn is the due time in a record, or another time.
func dueIn(record string, otherwise int64) int64 {
	if m := head.FindStringSubmatch(record); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		return n
	}
	return otherwise
}

// next is the number of the next attempt in a record.
func next(record string) int {
	n, err := notice.Decode(subject, prefix, record)
	if err != nil {
		return 1
	}
	return n.NextAttempt()
}

// birth is the generation of a notice that is created now.
func (w *world) birth() int64 { return w.us - 1577836800_000_000 }

// expires matches the head of a record that expires.
var expires = regexp.MustCompile(`^{"due":\d+,"made":\d+(?:,"first":-?\d+)?,"expires":(\d+)`)

// lapse is when a notice expires; 0 = never.
func lapse(record string) int64 {
	if m := expires.FindStringSubmatch(record); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		return n
	}
	return 0
}

// lasting is a record of the same notice that expires at a time, or never.
func lasting(record string, at int64) string {
	if m := expires.FindStringSubmatchIndex(record); m != nil {
		return record[:m[2]] + strconv.FormatInt(at, 10) + record[m[3]:]
	}
	m := regexp.MustCompile(`^{"due":\d+,"made":\d+(?:,"first":-?\d+)?`).FindStringIndex(record)
	if m == nil || at == 0 {
		return record
	}
	return record[:m[1]] + `,"expires":` + strconv.FormatInt(at, 10) + record[m[1]:]
}

// prolonged is the record of a notice that is sent again with another expiry: it keeps the first one.
func prolonged(record string, at int64) string {
	first := lapse(record)
	if first == 0 {
		first = -1
	}
	changed := lasting(record, at)
	m := expires.FindStringIndex(changed)
	if m == nil || strings.HasPrefix(changed[m[1]:], `,"first_expires":`) {
		return changed
	}
	return fmt.Sprintf(`%s,"first_expires":%d%s`, changed[:m[1]], first, changed[m[1]:])
}

// life is how long after its due time a new notice of lastingTail expires.
const life = 3 * anHour

// created is the record of a new notice.
func created(due, made int64, tail string) string {
	if tail == lastingTail {
		tail = fmt.Sprintf(`,"expires":%d`, due+life) + tail
	}
	return fmt.Sprintf(`{"due":%d,"made":%d%s`, due, made, tail)
}

// create schedules a new notice. n is its number in its call. A notice that is due now has no timer, and its score gets a fraction.
func (c *change) create(was float64, due int64, n int, now float64) {
	due = max(due, c.now())
	made := max(c.birth(), madeIn(c.n.record)+1)
	c.schedule(was, due, "1", 1, true, now)
	c.n.record = created(due, made, c.given)
	c.join(due, made, n)
}

// replaceBy puts a new notice in the place of the stored one.
func (c *change) replaceBy(due int64, n int, now float64) {
	c.unlist()
	c.leave()
	if c.n.settled == 0 {
		c.hand(c.letter("r"), c.n.record)
	}
	c.n.token, c.n.dead, c.n.settled = "", 0, 0
	c.create(c.n.due, due, n, now)
}

// settle ends the claim with a token, and then does what the outcome says.
func settle(token string, to func(c *change)) func(c *change) {
	return func(c *change) {
		c.found()
		c.n.token = ""
		c.free(token)
		to(c)
	}
}

// found ends what the state of a notice had whose claim Redis has lost.
func (c *change) found() {
	if c.n.token == "" {
		c.n.pause, c.n.listed, c.n.parked = "", 0, 0
	}
}

// later is what a settle adds to the score of a notice whose next attempt is not its first.
func (c *change) later() float64 {
	switch {
	case firstAttempt(c.given):
		return 0
	case c.n.due == float64(int64(c.n.due)):
		return 500.5 / 1024
	}
	return 0.5 / 256
}

// firstAttempt reports whether a notice that a settle schedules again has made no attempt, and was not sent again.
func firstAttempt(record string) bool {
	return !strings.Contains(record, `"n":`) && !strings.Contains(record, `"endings":`) && !strings.Contains(record, `"replay":`)
}
