package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/intake"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

const (
	prefix   = "sim"
	short    = 2 * time.Millisecond
	long     = time.Hour
	mostKeys = 3
	list     = "simlist"
)

var (
	partition = keys.Partition{Prefix: prefix}
	space     = keys.Space{Namespace: "notifier", Shards: 1}
)

// kind selects the steps of a world that not all worlds have.
type kind string

const (
	onePrefix kind = "one prefix"
	sequences kind = "sequences" // one prefix, whose route is ordered
	moves     kind = "moves"     // instances of different configurations
	adoption  kind = "adoption"  // producers set plain timers
	reshards  kind = "reshards"  // new shards replace the shards
	steady    kind = "steady"    // reshards on a Redis that loses nothing; for mutants only
)

// configurations returns the possible configurations of an instance: the prefixes of its
// routes. The keys match each of these prefixes.
func (k kind) configurations() [][]string {
	if k == moves {
		return [][]string{{prefix}, {prefix, prefix + ":a"}, {prefix + ":a:b"}}
	}
	return [][]string{{prefix}}
}

// many reports whether instances of the world differ.
func (k kind) many() bool { return k == moves || k == reshards }

// putsBack reports whether notices of the world are exported, restored, replayed and erased.
func (k kind) putsBack() bool { return k.many() || k == sequences }

// lab is a Redis and a store on it, for all runs of a test.
type lab struct {
	kind   kind
	steady bool           // Redis loses nothing
	mortal bool           // some notices expire
	client wire.Commander // through the wire
	under  []string       // the prefixes of all configurations

	srv      *testkit.Redis
	plain    *redis.Client // past the wire
	heard    *redis.PubSub // Redis's events, in worlds of adoption
	wire     *cable
	store    *store.Store
	steps    int // of all runs
	failedAt int // number of steps at the first failure
}

func newLab(t *testing.T, k kind, m mutation) *lab {
	t.Helper()
	srv := testkit.StartRedis(t, k.options()...)
	l := &lab{kind: k, mortal: k.ends() && m.mortal(), srv: srv, plain: srv.Client(), wire: &cable{mutation: m}}
	if k == adoption {
		l.listen(t)
	}
	for _, own := range k.configurations() {
		for _, p := range own {
			if !slices.Contains(l.under, p) {
				l.under = append(l.under, p)
			}
		}
	}
	c, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.AddHook(l.wire)
	l.client = c.Commander
	l.store = l.newStore([]string{prefix})
	if err := l.store.Wire().Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := l.plain.InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	summary.Lock()
	summary.redis = "Redis " + info["Server"]["redis_version"]
	summary.Unlock()
	return l
}

// newStore returns the store of a process that serves these prefixes, before Learn.
func (l *lab) newStore(own []string) *store.Store { return l.storeIn(space, own) }

// storeIn returns the store of a process that has read this layout.
func (l *lab) storeIn(space keys.Space, own []string) *store.Store {
	return store.New(store.Options{Client: l.client, Space: space, Prefixes: own, Retention: time.Hour,
		Retain: map[bool]int{true: 1, false: 1000}[l.kind == reshards],
		Adopts: func(string) bool { return l.kind == adoption }, History: map[bool]int{true: 10_000}[l.kind != onePrefix]})
}

// instance is a virtual process.
type instance struct {
	id    string
	store *store.Store
	own   []string // the prefixes of its routes; the last one is of the keys' route
	stale bool     // Redis has lost writes since the instance checked all old shards

	// For adoption: the queued events, the handled events of timers not yet read, and those of
	// timers that wait for a second check.
	adopter *intake.Adopter
	events  []event
	told    map[int]told
	first   map[int]told
	jobs    []*job
	called  []call // calls whose replies were lost
}

// call is a claim call.
type call struct {
	under string // the prefix
	token string
	place int
	keys  []int // nil for a sweep or a take-over
	limit int
	lasts bool
	over  string // for a take-over: the dead instance
}

// entry is an entry of the list, perhaps taken by a consumer.
type entry struct {
	key, body, attempt int
	made               notice.Made
	handled            bool
	found              *store.Found // as its report has read it
	score              int          // likewise, in the model
}

// world is one run.
type world struct {
	*lab
	t         *rapid.T
	ctx       context.Context
	order     order // of all routes
	keyCount  int
	notes     [mostKeys]note
	flights   map[keys.Partition]flight // the markers of the sequence
	timers    [mostKeys]timer
	following *following
	between   func() // runs between the next two scripts of an adoption
	nested    bool
	endings   []ending // the outbox
	deaths    []string // the facts of the deaths in the outbox of hooks
	hooks     []readDeaths
	texts     []string // the outbox entries at the last comparison
	brought   []brought
	held      hold
	scores    scores
	bodies    int
	serial    int
	instances []*instance
	dead      []string // ids
	again     []store.Request
	list      []entry  // the expected entries of the list
	taken     []*entry // taken by consumers
	reopen    []reopening
	resends   []resending
	moving    []moving
	batches   []*batch     // exported batches that movers hold
	layouts   []keys.Space // all layouts of this run; the last one is current
	knew      []int        // of each place, the number of places in its copy of the layout, at the last comparison
	within    bool         // the step runs within another call
	letters   []letter
	replays   []*replaying
	numbers   map[string]int // the highest number of an outbox entry, by notice
	disk      *disk
	succeeded map[int]bool // bodies that were handled
	claimedAt time.Time    // when the last claim was won
}

// reopening is a delivered notice that a late report has read.
type reopening struct {
	key, writes int
	found       store.Found
}

// disk is the state that a restart restores.
type disk struct {
	dump    []any
	notes   [mostKeys]note
	flights map[keys.Partition]flight
	timers  [mostKeys]timer
	list    []entry

	endings []ending
	deaths  []string
	held    hold
	last    map[*replaying]map[int]int
	layouts int // number of layouts
}

func key(k int) string { return fmt.Sprintf("sim:a:b:%d", k) }

// key returns the name of a key of this run.
func (w *world) key(k int) string { return keyIn(w.order, k) }

// keyIn returns the name of a key of a run with that order. If the routes are ordered, all keys are a sequence.
func keyIn(o order, k int) string {
	if o != unordered {
		return fmt.Sprintf("sim:a:b:O~%d", k)
	}
	return key(k)
}

func newWorld(l *lab, t *rapid.T) *world {
	w := &world{lab: l, t: t, ctx: context.Background(), succeeded: map[int]bool{}, numbers: map[string]int{}, layouts: []keys.Space{space},
		keyCount: 2, flights: map[keys.Partition]flight{}}
	if err := l.plain.FlushDB(w.ctx).Err(); err != nil {
		t.Fatalf("empty Redis: %v", err)
	}
	l.wire.lose(arrives)
	if l.kind == adoption {
		w.bodies = 1000 // no body is the number of an attempt
		l.events(w.ctx, t)
	}
	if l.kind == reshards {
		l.store = l.newStore(l.under)
		for k := range w.notes {
			w.notes[k].place = -1
		}
	}
	if l.kind != moves {
		if err := l.store.Layout.Learn(w.ctx); err != nil {
			t.Fatalf("learn the layout: %v", err)
		}
	}
	w.drawOrder(t)
	for range 3 {
		w.instances = append(w.instances, w.newInstance(t))
	}
	return w
}

// newInstance starts a process with one of the configurations.
func (w *world) newInstance(t *rapid.T) *instance {
	in := &instance{id: w.newID(), store: w.store, own: w.under[:1]}
	if all := w.kind.configurations(); len(all) > 1 {
		in.own = pick(t, "configuration", all)
		in.store = w.newStore(in.own)
		w.say("%s begins, with routes of %v", in.id, in.own)
	}
	if w.kind == reshards {
		w.found(in)
	}
	if w.kind == adoption {
		in.adopter, in.told, in.first = newAdopter(w, in), map[int]told{}, map[int]told{}
	}
	return in
}

// route returns the prefix of the route that the keys have on the instance.
func (in *instance) route() string { return in.own[len(in.own)-1] }

// any draws an instance to answer a call of the API or of a consumer.
func (w *world) any(t *rapid.T) *instance {
	if !w.kind.many() {
		return w.instances[0]
	}
	return pick(t, "asks", w.instances)
}

// at returns the partition of a prefix in worlds with one shard.
func at(under string) keys.Partition { return keys.Partition{Prefix: under} }

func (n *note) at() keys.Partition { return keys.Partition{Prefix: n.under, Shard: n.place} }

func (c *call) at() keys.Partition { return keys.Partition{Prefix: c.under, Shard: c.place} }

func (j *job) at() keys.Partition { return keys.Partition{Prefix: j.under, Shard: j.place} }

// has reports whether the notice is in the partition of the call.
func (c *call) has(n *note) bool { return n.under == c.under && n.place == c.place && !n.away }

// partition returns the partition in which an instance creates a notice.
func (w *world) partition(in *instance, k int) keys.Partition {
	return in.store.Space().Partition(in.route(), w.key(k))
}

func (w *world) newID() string { w.serial++; return "i" + strconv.Itoa(w.serial) }

// say adds to the story.
func (w *world) say(format string, args ...any) { w.t.Logf(format, args...) }

// pass waits until Redis's clock is past an instant.
func (w *world) pass(at time.Time) {
	for {
		is, err := w.plain.Time(w.ctx).Result()
		if err != nil {
			w.t.Fatalf("ask for the time: %v", err)
		}
		if is.UnixMilli() > at.UnixMilli() {
			return
		}
	}
}

// passShort waits until short leases and delays have ended.
func (w *world) passShort() {
	w.pass(w.clock().Add(short + time.Millisecond))
}

// clock reads Redis's clock.
func (w *world) clock() time.Time {
	is, err := w.plain.Time(w.ctx).Result()
	if err != nil {
		w.t.Fatalf("ask for the time: %v", err)
	}
	return is
}

// audit reads the record, scores, claim and timer of each key under its expected prefix, and
// counts all entries and records.
var audit = redis.NewScript(`
local reply = {}
local places, entries, records = tonumber(ARGV[1]), 0, 0
for k = 1, 4 * places, 4 do
  entries = entries + redis.call('ZCARD', KEYS[k]) + redis.call('ZCARD', KEYS[k + 2]) + redis.call('ZCARD', KEYS[k + 3])
  records = records + redis.call('HLEN', KEYS[k + 1])
end
for i = 4 * places + 1, #KEYS, 2 do
  local key = string.gsub(KEYS[i], '^x', '')
  local k = 1 + 4 * ARGV[(i - 4 * places + 1) / 2 + 1]
  reply[#reply + 1] = {redis.call('HGET', KEYS[k + 1], key) or '', redis.call('ZSCORE', KEYS[k], key) or '', redis.call('ZSCORE',
	KEYS[k + 2], key) or '',
    redis.call('ZSCORE', KEYS[k + 3], key) or '', redis.call('GET', KEYS[i + 1]) or '', redis.call('PEXPIRETIME', key), redis.call('GET',
	key) or ''}
end
return {entries, records, reply}`)

// look compares Redis with the model.
func (w *world) look() {
	w.checkClaimable()
	if w.kind == reshards {
		w.comparePlaces()
		return
	}
	w.checkSequences()
	w.steps++
	ks, args := []string{}, []any{len(w.under)}
	for _, p := range w.under {
		ks = append(ks, space.Shadow(at(p)), space.Records(at(p)), space.Dead(at(p)), space.Settled(at(p)))
	}
	for k := range w.notes {
		ks = append(ks, "x"+w.key(k), space.Claim(w.key(k)))
		args = append(args, max(slices.Index(w.under, w.notes[k].under), 0))
	}
	v, err := audit.Run(w.ctx, w.plain, ks, args...).Slice()
	if err != nil {
		w.t.Fatalf("look: %v", err)
	}
	kept := 0
	for k := range w.notes {
		n := &w.notes[k]
		if n.state != "" {
			kept++
		}
		row := v[2].([]any)[k].([]any)
		w.compare(k, n, row)
		if w.kind == adoption {
			w.compareTimer(k, row[6].(string), row[5].(int64))
		}
	}
	if v[0] != int64(kept) || v[1] != int64(kept) {
		w.t.Fatalf("Redis has %d entries and %d records, want %d", v[0], v[1], kept)
	}
	w.collect()
	w.compareExpiring()
	w.compareEndings()
	w.compareDeaths()
	w.compareList()
}

// compareList compares the entries of the list with the model.
func (w *world) compareList() {
	entries, err := w.plain.LRange(w.ctx, list, 0, -1).Result()
	if err != nil {
		w.t.Fatalf("read the list: %v", err)
	}
	if len(entries) != len(w.list) {
		w.t.Fatalf("%d entries in the list, want %d", len(entries), len(w.list))
	}
	for i, e := range entries {
		if want := w.list[i].text(); e != want {
			w.t.Fatalf("the list has %q, want %q", e, want)
		}
	}
}

func (e entry) text() string { return fmt.Sprintf("%d %d %d", e.key, e.body, e.attempt) }

func (w *world) compare(k int, n *note, row []any) {
	record := row[0].(string)
	pending, dead, settled := row[1].(string), row[2].(string), row[3].(string)
	if n.state == "" {
		if record != "" || pending != "" || dead != "" || settled != "" {
			w.t.Fatalf("key %d has %q, pending %q, dead %q, settled %q; want nothing", k, record, pending, dead, settled)
		}
		return
	}
	where := map[notice.State]int{notice.Scheduled: 0, notice.Dead: 1, notice.Delivered: 2, notice.Cancelled: 2}[n.state]
	for i, score := range []string{pending, dead, settled} {
		if (score != "") != (i == where) {
			w.t.Fatalf("key %d must be %s; it is pending %q, dead %q, settled %q", k, n, pending, dead, settled)
		}
	}
	if n.state == notice.Delivered && strings.Contains(settled, ".") || n.state == notice.Cancelled && !strings.HasSuffix(settled, ".5") {
		w.t.Fatalf("key %d must be %s; its score is %s", k, n, settled)
	}
	is, err := notice.Decode(w.key(k), n.under, record)
	if err != nil {
		w.t.Fatalf("key %d: %v", k, err)
	}
	if string(is.Body) != n.text() || is.Adopted != n.adopted || is.Lost != n.lost || is.AttemptsMade != n.used || is.Made != n.made ||
		is.AwaitsReport != n.awaits {
		w.t.Fatalf("key %d must be %s, made %d, awaits %v; its record is %s", k, n, n.made, n.awaits, record)
	}
	holder := row[4].(string)
	if want := n.holder; n.held() && holder != want || !n.held() && holder != "" {
		w.t.Fatalf("key %d must be %s; its claim is %q", k, n, holder)
	}
	if n.state == notice.Delivered && !w.succeeded[n.body] {
		w.t.Fatalf("key %d is delivered, but no handler has handled body %d", k, n.body)
	}
	w.compareTimes(k, n, pending, row[5].(int64))
}

// compareTimes compares a notice's score and timer with the model. The score's fraction
// encodes the score's meaning. A timer expires a millisecond before the due time.
func (w *world) compareTimes(k int, n *note, pending string, expires int64) {
	if n.state != notice.Scheduled {
		n.stands = 0
		if expires >= 0 && w.kind != adoption {
			w.t.Fatalf("key %d is %s and has a timer", k, n)
		}
		return
	}
	score, err := strconv.ParseFloat(pending, 64)
	if err != nil {
		w.t.Fatalf("key %d: score %q", k, pending)
	}
	part := score - float64(int64(score))
	n.stands = score
	if w.kind == adoption && (n.lapses == 0 && n.far && n.timer != (part == 0 || part >= 500.0/1024 && part < 0.5) || n.timed() && n.far &&
		n.due != 0 && n.due != int64(score)) {
		w.t.Fatalf("key %d must be %s, with a timer %v, due at %d; its score is %s", k, n, n.timer, n.due, pending)
	}
	if want := float64(min(n.lapses, 499)) / 1024; n.lapses > 0 && part != want || n.lapses == 0 && part != 0 &&
		(part < 500.0/1024 || part >= 0.99) {
		w.t.Fatalf("key %d must be %s after %d claims; its score is %s", k, n, n.lapses, pending)
	}
	if w.kind == adoption {
		return
	}
	if n.lapses == 0 && n.far && n.timer && expires != int64(score)-1 {
		w.t.Fatalf("key %d is due at %s; its timer expires at %d", k, pending, expires)
	}
	if !(n.far && n.timer) && expires >= 0 {
		w.t.Fatalf("key %d is %s, due or without a timer, and has one that expires at %d", k, n, expires)
	}
}

// seed returns the given seed, or a random one if it is 0.
func seed(given uint64) uint64 {
	if given != 0 {
		return given
	}
	return rand.Uint64()>>1 | 1
}
