package store

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// This file is the table States of docs/architecture.md: what is stored for the notices of a shard.

// stored is what Redis has of one notice. A score of 0 means that the notice is not in that set.
type stored struct {
	key, record           string
	due                   float64 // the score in the shadow
	dead, settled, parked float64
	near                  bool   // the time in due depends on the rest of a marker, so it is not exact
	token                 string // of the claim key; "" = there is none
	until                 expiry // of the claim key
	pause                 string // in the list of held notices; "" = it is not in there
	listed                float64
	position              string // "" = none
	looked                int64  // when the service looks at a notice that had expired when it was claimed; 0 = when it expires
}

// expiry is when a key expires, in Unix ms; 0 = never. It is exact unless the script gives a number of ms, which Redis adds to
// its own clock.
type expiry struct {
	at   int64
	near bool
}

// marker is the claim of a notice that is not, or may not be, the head of its sequence.
type marker struct {
	token, key string
	until      expiry
}

// plain is a key outside the service's namespace: a timer, or the key of another program.
type plain struct {
	text  string // the value; "" = a hash
	until expiry
}

// world is a shard with one route. Its time is that of the call that the model follows.
type world struct {
	us      int64  // the time of the call, in Unix µs
	started int64  // when the world was set up, in Unix ms
	order   string // "none", "skip" or "block"
	route   string // the prefix of the notices
	beside  *world // notices of another prefix of the shard, and nothing else; nil = none
	history bool
	retain  bool
	mode    string // "plain", "adopting", "cluster" or "adopting cluster"
	notices map[string]*stored
	names   map[string]plain  // by the name of a notice
	markers map[string]marker // by order key
	marked  expiry            // of the key that says that there may be markers
	ended   []string          // the outbox of the history
	deaths  []string          // the outbox of the hooks
	tombs   map[string]string // by digest
	strays  int               // how many positions without a notice were removed
	bucket  string            // of the tombstones
	batch   string            // the number of the batch that was exported
	came    string            // the number of the batch that was imported, and the notices that stay in their source
	more    database          // other keys of the shard, by name without the shard's prefix
	foreign int               // how many keys of other programs were reported
}

// aBucket is the end of the period of the tombstones, in Unix ms.
const aBucket = "4000000000000"

func (w *world) now() int64 { return w.us / 1000 }

// after is when a delay of some ms that begins now ends: never too early.
func (w *world) after(ms int64) int64 { return (w.us+999)/1000 + ms }

func (w *world) ordered() bool { return w.order != "none" }

// blocks reports whether dead letters keep their positions.
func (w *world) blocks() bool { return w.order == "block" }

// fork is a copy that may be changed.
func (w *world) fork() *world {
	c := *w
	c.names, c.markers, c.tombs = maps.Clone(w.names), maps.Clone(w.markers), maps.Clone(w.tombs)
	c.ended, c.deaths = slices.Clone(w.ended), slices.Clone(w.deaths)
	c.notices = map[string]*stored{}
	for key, n := range w.notices {
		copied := *n
		c.notices[key] = &copied
	}
	return &c
}

// of is what is stored of a key.
func (w *world) of(key string) *stored {
	n := w.notices[key]
	if n == nil {
		n = &stored{key: key}
		w.notices[key] = n
	}
	return n
}

// entry is one Redis key.
type entry struct {
	kind  string            // as TYPE names it
	text  string            // of a string
	list  []string          // of a list
	hash  map[string]string // of a hash, or the members of a set
	zset  map[string]float64
	near  map[string]bool // the members of zset whose score is not exact
	until expiry
}

// database is all keys of a Redis database.
type database map[string]*entry

func (d database) at(name, kind string) *entry {
	e := d[name]
	if e == nil {
		e = &entry{kind: kind, hash: map[string]string{}, zset: map[string]float64{}, near: map[string]bool{}}
		d[name] = e
	}
	return e
}

// score adds a member to a zset, unless the score is 0.
func (d database) score(name, member string, score float64, near bool) {
	if score == 0 {
		return
	}
	e := d.at(name, "zset")
	e.zset[member] = score
	if near {
		e.near[member] = true
	}
}

// keys are the keys that store the world, in a shard whose keys begin with base.
func (w *world) keys(base string) database {
	d := database{}
	in := func(kind string) string { return base + kind + ":" + w.route }
	if w.ordered() {
		set := d.at(base+"ordered", "set")
		for _, route := range []string{prefix, besidePrefix} {
			if set.hash[route] = ""; w.blocks() {
				set.hash[route+Blocks] = ""
			}
		}
	}
	for key, n := range w.notices {
		if n.record != "" {
			d.at(in("records"), "hash").hash[key] = n.record
		}
		d.score(in("shadow"), key, n.due, n.near)
		d.score(in("dead"), key, n.dead, false)
		d.score(in("settled"), key, n.settled, false)
		d.score(in("waiting"), key, n.parked, false)
		if at := lapse(n.record); at != 0 && n.due != 0 {
			d.score(in("expiring"), key, float64(cmp.Or(n.looked, at)), false)
		}
		if n.token != "" {
			e := d.at(base+"claim:"+key, "string")
			e.text, e.until = n.token, n.until
		}
		if n.pause != "" {
			d.at(in("holds"), "hash").hash[key] = text(n.listed) + " " + n.pause
			d.at(in("held"), "zset").zset[n.pause+" "+key] = 0
		}
	}
	w.sequences(d, in)
	for name, m := range w.markers {
		e := d.at(in("sequence")+":"+name, "string")
		e.text, e.until = m.token+" "+m.key, m.until
	}
	if w.marked.at != 0 {
		e := d.at(in("markers"), "string")
		e.text, e.until = "1", w.marked
	}
	for name, p := range w.names {
		e := d.at(name, "string")
		if e.text, e.until = p.text, p.until; p.text == "" {
			e.kind, e.hash["paid"] = "hash", "1"
		}
	}
	for name, list := range map[string][]string{base + "ended": w.ended, base + "deaths": w.deaths} {
		if len(list) > 0 {
			d.at(name, "list").list = list
		}
	}
	for digest, tomb := range w.tombs {
		d.at(base+"tombstones", "zset").zset[w.bucket] = number(w.bucket)
		d.at(base+"tombstones:"+w.bucket, "hash").hash[digest] = tomb
	}
	for name, e := range w.more {
		d[base+name] = e
	}
	if w.beside != nil {
		maps.Copy(d, w.beside.keys(base))
	}
	return d
}

// sequences adds the keys of the positions: the first of each sequence is the head.
func (w *world) sequences(d database, in func(string) string) {
	for name, members := range w.bySequence() {
		for i, n := range members {
			if i == 0 {
				d.at(in("order"), "hash").hash[name] = n.position + " " + n.key
				continue
			}
			d.at(in("successors"), "zset").zset[name+" "+n.position+" "+n.key] = 0
			d.at(in("positions"), "hash").hash[n.key] = n.position
		}
	}
}

// bySequence returns the notices with a position, by order key and in their order.
func (w *world) bySequence() map[string][]*stored {
	by := map[string][]*stored{}
	for key, n := range w.notices {
		if n.position != "" {
			by[keys.OrderKey(key)] = append(by[keys.OrderKey(key)], n)
		}
	}
	for _, members := range by {
		slices.SortFunc(members, func(a, b *stored) int { return strings.Compare(a.position+a.key, b.position+b.key) })
	}
	return by
}

func text(score float64) string { return strconv.FormatFloat(score, 'g', 17, 64) }

func number(text string) float64 {
	f, _ := strconv.ParseFloat(text, 64)
	return f
}

// positionAt is that of a notice with a due time and a generation, number n of its call.
func positionAt(due, made int64, n int) string { return fmt.Sprintf("%011x%013x%03x", due, made, n) }

// The fractions of a score, by the table States.
const (
	untimed  = 0.5
	paused   = 132.0 / 256
	busy     = 1 // the number of a cause
	claimOne = 1.0 / 1024
)

func fraction(score float64) float64 { return score - math.Floor(score) }

// timed reports whether the state with this score has a timer.
func timed(score float64) bool {
	f := fraction(score)
	return score > 0 && (f == 0 || f >= 500.0/1024 && f < untimed)
}

// claimed reports whether a score is that of a claim.
func claimed(score float64) bool { return fraction(score) > 0 && fraction(score) < 500.0/1024 }

// withoutTimer is the score of the same notice in the same state without a timer.
func withoutTimer(score float64) float64 {
	f := fraction(score)
	if f > 0 {
		f = (f - 500.0/1024) * 1024 / 256
	}
	return math.Floor(score) + untimed + f
}

// A state of a notice, and how it comes about in a world.
type matrixState struct {
	name  string
	class string // the state's name in the table Transitions
	build func(w *world, n *stored)
}

const (
	ms     = int64(1)
	minute = 60_000 * ms
	anHour = 60 * minute
	made   = int64(200_000_000_000_000) // a generation
	ours   = "i1-1"                     // the token of the claim
	theirs = "i2-1"                     // that of another notice of the sequence
	// besidePrefix is a prefix that covers the key too.
	besidePrefix = "app1:a"
	subject      = "app1:a:b:1~1" // the notice that is changed
	other        = "app1:a:b:1~2" // another one of its sequence
)

// recordOf is a record that is due at a time, after some attempts.
func recordOf(due int64, attempts int) string {
	n := ""
	if attempts > 0 {
		n = `,"n":` + strconv.Itoa(attempts)
	}
	return `{"due":` + strconv.FormatInt(due, 10) + `,"made":` + strconv.FormatInt(made, 10) + `,"text":"b"` + n + `}`
}

// pending makes a notice pending: it is due at due and has a score.
func pending(w *world, n *stored, due int64, score float64) {
	n.record, n.due = recordOf(due, 0), score
	if w.ordered() {
		n.position = positionAt(due, made, 1)
	}
}

func held(w *world, n *stored) {
	at := w.now() + anHour
	pending(w, n, w.now()-minute, float64(at)+paused)
	n.pause, n.listed = "p1", n.due
}

func claimedBy(w *world, n *stored, token string, record string) {
	at := w.now() + minute
	pending(w, n, w.now()-minute, float64(at)+claimOne)
	n.record = record
	n.token, n.until = token, expiry{at: at}
}

func finalized(n *stored, w *world, attempts int) { n.record = recordOf(w.now()-minute, attempts) }

// mark writes the marker of a claim that is not the head's.
func (w *world) mark(token, key string, until expiry) {
	w.markers[keys.OrderKey(key)] = marker{token, key, until}
	if w.marked.at < until.at {
		w.marked = until
	}
}

var matrixStates = []matrixState{
	{"absent", "absent", func(*world, *stored) {}},
	{"scheduled", "pending", func(w *world, n *stored) { pending(w, n, w.now()+anHour, float64(w.now()+anHour)) }},
	{"scheduled by a clock that was ahead", "ahead", func(w *world, n *stored) {
		pending(w, n, w.now()+anHour, float64(w.now()+anHour))
		n.record = created(w.now()+anHour, w.birth()+anHour*1000, `,"text":"b"}`)
	}},
	{"due", "due", func(w *world, n *stored) { pending(w, n, w.now()-minute, float64(w.now()-minute)) }},
	{"due at once", "due", func(w *world, n *stored) { pending(w, n, w.now()-minute, float64(w.now()-minute)+0.7) }},
	{"postponed", "postponed", func(w *world, n *stored) {
		pending(w, n, w.now()-minute, float64(w.now()+anHour)+(500+busy)/1024.0)
	}},
	{"held", "pending", held},
	{"released", "due", func(w *world, n *stored) { pending(w, n, w.now()-minute, float64(w.now()-minute)+paused) }},
	{"released for later", "pending", func(w *world, n *stored) {
		pending(w, n, w.now()-minute, float64(w.now()+minute)+paused)
	}},
	{"parked", "pending", func(w *world, n *stored) { // behind the claim of a notice that has left
		until := expiry{at: w.now() + anHour}
		pending(w, n, w.now()-minute, float64(until.at)+0.6)
		n.parked = float64(w.now() - minute)
		w.mark(theirs, other, until)
	}},
	{"parked after an expired lease", "pending", func(w *world, n *stored) {
		until := expiry{at: w.now() + anHour}
		pending(w, n, w.now()-anHour, float64(until.at)+2*claimOne)
		n.parked = float64(w.now() - minute)
		w.mark(theirs, other, until)
	}},
	{"parked, the marker has ended", "due", func(w *world, n *stored) {
		pending(w, n, w.now()-anHour, float64(w.now()-minute)+0.6)
		n.parked = float64(w.now() - anHour)
	}},
	{"parked, due too early", "due", func(w *world, n *stored) {
		pending(w, n, w.now()-anHour, float64(w.now()-minute)+0.6)
		n.parked = float64(w.now() - anHour)
		w.mark(theirs, other, expiry{at: w.now() + anHour})
	}},
	{"due behind a marker", "due", func(w *world, n *stored) {
		pending(w, n, w.now()-minute, float64(w.now()-minute))
		w.mark(theirs, other, expiry{at: w.now() + anHour})
	}},
	{"held and due", "due", func(w *world, n *stored) {
		held(w, n)
		n.due = float64(w.now()-minute) + paused
		n.listed = n.due
	}},
	{"claimed", "claimed", func(w *world, n *stored) { claimedBy(w, n, ours, recordOf(w.now()-minute, 0)) }},
	{"claimed with a marker", "claimed", func(w *world, n *stored) {
		claimedBy(w, n, ours, recordOf(w.now()-minute, 0))
		w.mark(ours, n.key, n.until)
	}},
	{"claimed beside a marker of another sequence", "claimed", func(w *world, n *stored) {
		claimedBy(w, n, ours, recordOf(w.now()-minute, 0))
		w.mark(theirs, "app1:a:b:2", expiry{at: w.now() + anHour})
	}},
	{"lapsed", "lapsed", func(w *world, n *stored) { pending(w, n, w.now()-anHour, float64(w.now()-minute)+2*claimOne) }},
	{"handed", "handed", func(w *world, n *stored) { claimedBy(w, n, reportOf(1), recordOf(w.now()-minute, 1)) }},
	{"handed, Redis has lost the claim key", "handed without a key", func(w *world, n *stored) {
		claimedBy(w, n, "", recordOf(w.now()-minute, 1))
	}},
	{"dead", "dead", func(w *world, n *stored) {
		finalized(n, w, 3)
		if n.dead = float64(w.now()-minute) + cause; w.blocks() {
			n.position = positionAt(w.now()-minute, made, 1)
		}
	}},
	{"delivered", "delivered", func(w *world, n *stored) {
		finalized(n, w, 1)
		n.settled = float64(w.now() - minute)
	}},
	{"cancelled", "cancelled", func(w *world, n *stored) {
		finalized(n, w, 0)
		n.settled = float64(w.now()-minute) + 0.5
	}},
	{"cancelled in an attempt", "cancelled", func(w *world, n *stored) { // its claim's holder has not settled
		finalized(n, w, 0)
		n.settled = float64(w.now()-minute) + 0.5
		w.mark(ours, n.key, expiry{at: w.now() + minute})
	}},
	{"cancelled while handed", "cancelled", func(w *world, n *stored) {
		finalized(n, w, 1)
		n.settled = float64(w.now()-minute) + 0.5
		w.mark(reportOf(1), n.key, expiry{at: w.now() + minute})
	}},
	{"tombstone", "tombstone", func(w *world, n *stored) {
		w.bucket = aBucket
		w.tombs[string(keys.AppendDigest(nil, n.key))] = string((&notice.Notice{Made: notice.Made(made)}).Tombstone().Append(nil))
	}},

	// What faults leave.
	{"without a record", "without a record", func(w *world, n *stored) {
		pending(w, n, w.now()+anHour, float64(w.now()+anHour))
		n.record = ""
	}},
	{"without a body", "without a body", func(w *world, n *stored) {
		pending(w, n, w.now()-minute, float64(w.now()-minute)+0.5)
		n.record = strings.TrimSuffix(recordOf(w.now()-minute, 0), `"text":"b"}`) + `"adopted":true,"lost":true}`
	}},
	{"only a record", "taken", func(w *world, n *stored) { n.record = recordOf(w.now()-minute, 0) }},
	{"unreadable", "unreadable", func(w *world, n *stored) {
		pending(w, n, w.now()+anHour, float64(w.now()+anHour))
		n.record = `{"due":x}`
	}},
	{"claim key without a claim", "locked", func(w *world, n *stored) {
		pending(w, n, w.now()-minute, float64(w.now()-minute))
		n.token, n.until = theirs, expiry{at: w.now() + minute}
	}},
	{"claim without a claim key", "claimed without a key", func(w *world, n *stored) {
		claimedBy(w, n, "", recordOf(w.now()-minute, 0))
	}},
	{"without a position", "due", func(w *world, n *stored) {
		pending(w, n, w.now()-minute, float64(w.now()-minute))
		n.position = ""
	}},
	{"listed by mistake", "pending", func(w *world, n *stored) {
		held(w, n)
		n.due = float64(w.now() + anHour)
	}},
	{"listed with another score", "pending", func(w *world, n *stored) {
		held(w, n)
		n.listed -= float64(minute)
	}},
}

// reportOf is the token of a notice that awaits a report on an attempt.
func reportOf(attempt int) string {
	return reportToken + fmt.Sprint(made) + ":" + strconv.Itoa(attempt)
}

// matrixOther is another notice of the sequence.
type matrixOther struct {
	name   string
	before bool // its position is before that of the notice that is changed
	build  func(w *world, n *stored)
}

// join adds the notice to the world, or returns why that is impossible.
func (o *matrixOther) join(w *world, n *stored) (impossible string) {
	_, own := w.markers[keys.OrderKey(subject)]
	marked := len(w.markers)
	x := w.of(other)
	o.build(w, x)
	switch {
	case marked > 0 && x.token != "":
		return ruleMarker
	case !o.before && n.position != "" && x.token != "" && len(w.markers) == 0:
		return ruleFlight
	case o.before && n.token != "" && claimed(n.due) && !own:
		return ruleFlight
	case x.position == "":
		return ruleDead
	case x.parked != 0 && n.position == "" && marked == 0:
		return ruleWaits
	}
	if at := w.now() + 3*anHour; o.before {
		x.position = positionAt(w.now()-2*anHour, made, 1)
	} else {
		x.position = positionAt(at, made, 1)
	}
	return ""
}

var matrixOthers = []matrixOther{
	{"behind one that is scheduled", true, func(w *world, n *stored) { pending(w, n, w.now()+anHour, float64(w.now()+anHour)+untimed) }},
	{"behind one that is claimed", true, func(w *world, n *stored) { claimedBy(w, n, theirs, recordOf(w.now()-anHour, 0)) }},
	{"behind a dead letter", true, func(w *world, n *stored) {
		n.record, n.dead = recordOf(w.now()-anHour, 3), float64(w.now()-minute)
		if w.blocks() {
			n.position = "x"
		}
	}},
	{"behind a position without a notice", true, func(w *world, n *stored) { n.position = "x" }},
	{"before one that is due", false, func(w *world, n *stored) { pending(w, n, w.now()-minute, float64(w.now()-minute)) }},
	{"before one that is parked", false, func(w *world, n *stored) {
		pending(w, n, w.now()-minute, float64(w.now()+5*minute)+0.6)
		n.parked = float64(w.now() - minute)
	}},
	{"before one that is parked after an expired lease", false, func(w *world, n *stored) {
		pending(w, n, w.now()-minute, float64(w.now()+5*minute)+2*claimOne)
		n.parked = float64(w.now() - minute)
	}},
	{"before one that is claimed", false, func(w *world, n *stored) { claimedBy(w, n, theirs, recordOf(w.now()-minute, 0)) }},
	{"before one that is claimed with a marker", false, func(w *world, n *stored) {
		claimedBy(w, n, theirs, recordOf(w.now()-minute, 0))
		w.mark(theirs, n.key, n.until)
	}},
}
