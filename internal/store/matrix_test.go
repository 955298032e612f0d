package store

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
)

// The matrix: each transition from each state, with each kind of order and of timer. A cell sets up a state by plain commands, calls the
// store, and compares every key of the database with a model that follows the tables of docs/architecture.md.

var (
	matrixFlag  = flag.Int("matrix.every", 60, "every how many cells of the matrix are checked; 1 = all of them")
	matrixSeed  = flag.Int("matrix.seed", 1, "which of the cells")
	matrixShown = flag.Int("matrix.shown", 20, "how many wrong cells are shown")
)

// cell is one combination of the dimensions.
type cell struct {
	rule    *rule
	state   *matrixState
	order   string
	timer   string
	mode    string
	history bool
	retain  bool
	other   *matrixOther // another notice of the sequence, or nil
	expires string       // "" = never, "later" or "earlier"
}

func (c cell) String() string {
	text := fmt.Sprintf("%s of a notice that is %s; order %s, timer %s, %s, history %t, retention %t",
		c.rule.name, c.state.name, c.order, c.timer, c.mode, c.history, c.retain)
	if c.expires != "" {
		text += ", expires " + c.expires
	}
	if c.other != nil {
		text += ", " + c.other.name
	}
	return text
}

// The values of the dimensions.
var (
	matrixOrders = []string{"none", "skip", "block"}
	matrixModes  = []string{"plain", "adopting", "cluster", "adopting cluster"}
	matrixTimers = map[string]func(w *world, n *stored) (impossible string){
		"none":     func(_ *world, n *stored) string { return withoutOwn(n) },
		"ours":     func(w *world, n *stored) string { return ownTimer(w, n, "1") },
		"payload":  func(w *world, n *stored) string { return ownTimer(w, n, `{"a":1}`) },
		"lost":     func(_ *world, n *stored) string { return hasTimer(n) },
		"producer": func(w *world, n *stored) string { return foreignKey(w, n, `{"a":1}`, w.now()+30*minute) },
		"number":   func(w *world, n *stored) string { return foreignKey(w, n, "1", w.now()+30*minute) },
		"stranger": func(w *world, n *stored) string { return foreignKey(w, n, "", 0) },
		"producer instead": func(w *world, n *stored) string {
			w.names[n.key] = plain{`{"a":1}`, expiry{at: w.now() + 30*minute}}
			return hasTimer(n)
		},
		"stranger instead":  func(w *world, n *stored) string { w.names[n.key] = plain{}; return hasTimer(n) },
		"persisted instead": func(w *world, n *stored) string { w.names[n.key] = plain{text: "1"}; return hasTimer(n) },
	}
)

const (
	ruleTimer   = "a notice of this state has no timer"
	ruleExpired = "the timer of a due notice has expired"
	ruleMarker  = "a sequence has one marker"
	ruleFlight  = "a notice in flight is the head of its sequence or has a marker"
	ruleAsked   = "the caller asks for this change only in the states of the table"
	ruleWaits   = "a parked notice waits for an earlier one or for a marker"
	ruleDead    = "only on a route with block a dead letter keeps its position"
	ruleOrder   = "only a notice of an ordered route waits for another one, has a marker or lacks a position"
)

// hasTimer is why a notice cannot have a timer of its own.
func hasTimer(n *stored) string {
	switch {
	case !timed(n.due):
		return ruleTimer
	case n.due < float64(time.Now().UnixMilli()):
		return ruleExpired
	}
	return ""
}

func ownTimer(w *world, n *stored, value string) string {
	w.names[n.key] = plain{value, expiry{at: int64(math.Floor(n.due)) - 1}}
	return hasTimer(n)
}

// withoutOwn makes a notice one without a timer.
func withoutOwn(n *stored) string {
	if hasTimer(n) == "" {
		n.due = withoutTimer(n.due)
	}
	return ""
}

func foreignKey(w *world, n *stored, value string, till int64) string {
	w.names[n.key] = plain{value, expiry{at: till}}
	return withoutOwn(n)
}

// orderly is why a state is impossible on a route without an order.
func (c cell) orderly(w *world) string {
	if !w.ordered() && (len(w.markers) > 0 || w.of(subject).parked != 0 || c.state.name == "without a position") {
		return ruleOrder
	}
	return ""
}

// cells are all combinations.
func cells() (list []cell) {
	timers := slices.Sorted(maps.Keys(matrixTimers))
	for i := range rules {
		for j := range matrixStates {
			for _, order := range matrixOrders {
				for _, timer := range timers {
					for _, mode := range matrixModes {
						for _, flags := range []int{3, 0, 1, 2} {
							list = append(list, cell{&rules[i], &matrixStates[j], order, timer, mode, flags&1 > 0, flags&2 > 0, nil, ""})
							if rules[i].few {
								break
							}
						}
					}
				}
			}
		}
	}
	return list
}

// pairs are all combinations with another notice of the same sequence.
func pairs() (list []cell) {
	for i := range rules {
		for j := range matrixStates {
			for k := range matrixOthers {
				for _, order := range matrixOrders[1:] {
					for _, timer := range []string{"none", "ours"} {
						list = append(list, cell{&rules[i], &matrixStates[j], order, timer, "plain", true, true, &matrixOthers[k], ""})
					}
				}
			}
		}
	}
	return list
}

// expiring are combinations with a notice that expires.
func expiring() (list []cell) {
	for i := range rules {
		for j := range matrixStates {
			for _, order := range []string{"none", "block"} {
				for _, timer := range []string{"none", "ours"} {
					for _, mode := range []string{"plain", "cluster"} {
						for _, when := range []string{"later", "earlier"} {
							list = append(list, cell{&rules[i], &matrixStates[j], order, timer, mode, true, true, nil, when})
						}
					}
				}
			}
		}
	}
	return list
}

// chosen reports whether this run checks a cell. One cell of each transition and state is always checked.
func (c cell) chosen() bool {
	if c.order == "block" && c.timer == "none" && c.mode == "plain" && c.history && c.retain && c.other == nil && c.expires != "later" {
		return true
	}
	h := fnv.New32a()
	fmt.Fprint(h, *matrixSeed, c)
	return h.Sum32()%uint32(*matrixFlag) == 0
}

// rig runs cells on its own database.
type rig struct {
	t       *testing.T
	ctx     context.Context
	c       *redis.Client
	space   keys.Space
	s       *Store // of the current cell
	stores  map[string]*Store
	layouts map[string]database // what is stored beside notices
	us      atomic.Int64        // the time of the last script, in Unix µs
	foreign foreigners
	mutant  *mutant
}

func newRig(t *testing.T) *rig {
	srv := testkit.SharedRedis(t)
	r := &rig{t: t, ctx: t.Context(), c: srv.Client(), stores: map[string]*Store{}, layouts: map[string]database{},
		space: keys.Space{Namespace: srv.Namespace(), Shards: 1}}
	r.c.AddHook(r)
	return r
}

// DialHook, ProcessHook and ProcessPipelineHook are of redis.Hook: the rig reads the time in the replies of scripts, and inserts its
// mutant into their text.
func (r *rig) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *rig) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.mutant != nil && !r.mutant.insert(cmd) {
			return cmd.Err()
		}

		err := next(ctx, cmd)
		if c, ok := cmd.(interface{ Slice() ([]any, error) }); ok {
			v, _ := c.Slice()
			if len(v) > 0 {
				if us, _ := v[0].(int64); us > 1e15 {
					r.us.Store(us)
				}
			}
		}
		return err
	}
}

func (r *rig) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// use makes the store for a cell the current one, and returns what is stored without notices.
func (r *rig) use(c cell) (database, error) {
	name := fmt.Sprint(c.mode, c.history, c.retain)
	if r.s = r.stores[name]; r.s != nil {
		return r.layouts[name], nil
	}
	o := Options{Client: r.c, Space: r.space, Prefixes: []string{prefix}, Cluster: strings.HasSuffix(c.mode, "cluster"), Observer: &r.foreign,
		Adopts: func(string) bool { return strings.HasPrefix(c.mode, "adopting") }}
	if c.history {
		o.History = 1000
	}
	if c.retain {
		o.Retention, o.Retain = time.Hour, 1000
	}
	r.s = New(o)
	if err := r.c.FlushDB(r.ctx).Err(); err != nil {
		return nil, err
	}
	if err := r.s.Layout.Learn(r.ctx); err != nil {
		return nil, err
	}
	d, _, err := r.dump()
	r.stores[name], r.layouts[name] = r.s, d
	return d, err
}

const dumpText = `
local out = {redis.call('TIME')}
for i, key in ipairs(redis.call('KEYS', '*')) do
  local kind, v = redis.call('TYPE', key).ok, nil
  if kind == 'string' then v = {redis.call('GET', key)}
  elseif kind == 'hash' then v = redis.call('HGETALL', key)
  elseif kind == 'zset' then v = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'list' then v = redis.call('LRANGE', key, 0, -1)
  else v = redis.call('SMEMBERS', key) end
  out[i + 1] = {key, kind, redis.call('PEXPIRETIME', key), v}
end
return out`

var dumpScript = redis.NewScript(dumpText)

// dump reads every key, and Redis's time in µs.
func (r *rig) dump() (database, int64, error) {
	v, err := dumpScript.Run(r.ctx, r.c, nil).Slice()
	if err != nil {
		return nil, 0, err
	}
	d := database{}
	for _, x := range v[1:] {
		k := x.([]any)
		e := d.at(k[0].(string), k[1].(string))
		if e.until.at = k[2].(int64); e.until.at < 0 {
			e.until.at = 0
		}
		list := k[3].([]any)
		for i := range list {
			text := list[i].(string)
			switch {
			case e.kind == "string":
				e.text = text
			case e.kind == "list":
				e.list = append(e.list, text)
			case e.kind == "set":
				e.hash[text] = ""
			case i%2 == 1 && e.kind == "hash":
				e.hash[list[i-1].(string)] = text
			case i%2 == 1:
				e.zset[list[i-1].(string)], _ = strconv.ParseFloat(text, 64)
			}
		}
	}
	return d, timeOf(v[0].([]any)), nil
}

// timeOf reads the reply of TIME, in µs.
func timeOf(v []any) int64 {
	s, _ := strconv.ParseInt(v[0].(string), 10, 64)
	us, _ := strconv.ParseInt(v[1].(string), 10, 64)
	return s*1_000_000 + us
}

// write puts commands into a pipeline that write the keys.
func (d database) write(ctx context.Context, p redis.Pipeliner) {
	for name, e := range d {
		switch e.kind {
		case "string":
			p.Set(ctx, name, e.text, 0)
		case "list":
			for _, text := range e.list {
				p.RPush(ctx, name, text)
			}
		case "zset":
			for member, score := range e.zset {
				p.ZAdd(ctx, name, redis.Z{Score: score, Member: member})
			}
		case "hash":
			p.HSet(ctx, name, e.hash)
		case "set":
			for member := range e.hash {
				p.SAdd(ctx, name, member)
			}
		}
		if e.until.at != 0 {
			p.PExpireAt(ctx, name, time.UnixMilli(e.until.at))
		}
	}
}

// build returns the world before the call of a cell, or why the cell is impossible.
func (c cell) build(ms int64) (*world, string) {
	w := &world{us: ms * 1000, started: ms, route: prefix, order: c.order, history: c.history, retain: c.retain, mode: c.mode,
		notices: map[string]*stored{}, names: map[string]plain{}, markers: map[string]marker{}, tombs: map[string]string{}}
	if c.rule.asked && !c.rule.applies(c.state.class) {
		return nil, ruleAsked
	}
	n := w.of(subject)
	c.state.build(w, n)
	if why := c.orderly(w); why != "" {
		return nil, why
	}
	if why := matrixTimers[c.timer](w, n); why != "" {
		return nil, why
	}
	switch c.expires {
	case "later":
		n.record = lasting(n.record, w.started+life)
	case "earlier":
		n.record = lasting(n.record, w.started-anHour/2)
	}
	if c.other != nil {
		return w, c.other.join(w, n)
	}
	return w, ""
}

// check runs a cell. It returns the differences, or why the cell is impossible.
func (r *rig) check(c cell) (wrong []string, impossible string, err error) {
	w, why := c.build(time.Now().UnixMilli())
	if why != "" {
		return nil, why, nil
	}
	layout, err := r.use(c)
	if err != nil {
		return nil, "", err
	}
	base := r.space.Base(0)
	if _, err := r.c.Pipelined(r.ctx, func(p redis.Pipeliner) error {
		p.FlushDB(r.ctx)
		layout.write(r.ctx, p)
		w.keys(base).write(r.ctx, p)
		return nil
	}); err != nil {
		return nil, "", err
	}
	from := time.Now()
	r.foreign.n = 0
	r.us.Store(0)
	given, err := c.rule.call(r, w, w.of(subject))
	if err != nil {
		return nil, "", err
	}
	r.s.Timers.Flush()
	got, _, err := r.dump()
	if err != nil {
		return nil, "", err
	}
	slack := time.Since(from).Milliseconds() + 2
	w.us = r.us.Load()
	after := c.rule.follow(w, c.state.class, given)
	want := after.keys(base)
	maps.Copy(want, layout)
	want[base+"layout"] = after.notes(layout[base+"layout"])
	wrong = differences(want, got, slack)
	if after.foreign != r.foreign.n {
		wrong = append(wrong, fmt.Sprintf("%d keys of other programs were reported, want %d", r.foreign.n, after.foreign))
	}
	return wrong, "", nil
}

// notes is the layout with what the call noted there.
func (w *world) notes(layout *entry) *entry {
	e := *layout
	e.hash = maps.Clone(e.hash)
	if w.strays > 0 {
		e.hash["strays"] = strconv.Itoa(w.strays)
	}
	if w.batch != "" {
		e.hash["batches"] = w.batch
	}
	if w.came != "" {
		e.hash["from 7"] = w.came
	}
	return &e
}

// differences lists the keys that differ. Times that are not exact may differ by slack, in ms.
func differences(want, got database, slack int64) (list []string) {
	names := map[string]bool{}
	for _, d := range []database{want, got} {
		for name := range d {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := want[name], got[name]; !same(a, b, slack) {
			list = append(list, fmt.Sprintf("%s\n    want %v\n    got  %v", name, a, b))
		}
	}
	return list
}

func same(want, got *entry, slack int64) bool {
	if want == nil || got == nil {
		return want == got
	}
	near := func(a, b int64) bool { return a-b <= slack && b-a <= slack }
	if want.until.at != got.until.at && !(want.until.near && near(want.until.at, got.until.at)) {
		return false
	}
	for member, score := range want.zset {
		is, has := got.zset[member]
		if !has || is != score && !(want.near[member] && fraction(is) == fraction(score) && near(int64(is), int64(score))) {
			return false
		}
	}
	return want.kind == got.kind && want.text == got.text && slices.Equal(want.list, got.list) && maps.Equal(want.hash, got.hash) &&
		len(want.zset) == len(got.zset)
}

func (e *entry) String() string {
	if e == nil {
		return "no key"
	}
	scores := []string{}
	for _, m := range slices.Sorted(maps.Keys(e.zset)) {
		scores = append(scores, m+" "+text(e.zset[m]))
	}
	return strings.TrimSpace(fmt.Sprint(e.kind, " ", e.text, e.list, e.hash, scores, e.until))
}

// matrixRigs is how many databases the matrix uses at once.
const matrixRigs = 3

func TestMatrix(t *testing.T) {
	all := slices.Concat(cells(), pairs(), expiring())
	var mu sync.Mutex
	ruled, visited, wrong, checked := map[string]int{}, map[string]bool{}, 0, 0
	work := make(chan cell, 100)
	var wg sync.WaitGroup
	for range matrixRigs {
		r := newRig(t)
		wg.Go(func() {
			for c := range work {
				diffs, why, err := r.check(c)
				mu.Lock()
				switch {
				case why != "":
					ruled[why]++
				default:
					checked++
					visited[c.rule.name+" × "+c.state.name] = true
				}
				if err != nil || len(diffs) > 0 {
					if wrong++; wrong <= *matrixShown {
						t.Errorf("%s:\n  %s%v", c, strings.Join(diffs, "\n  "), err)
					}
				}
				mu.Unlock()
			}
		})
	}
	for _, c := range all {
		if c.chosen() {
			work <- c
		}
	}
	close(work)
	wg.Wait()
	for _, why := range []string{ruleTimer, ruleExpired, ruleOrder, ruleMarker, ruleFlight, ruleDead, ruleWaits, ruleAsked} {
		if ruled[why] == 0 {
			t.Errorf("no cell is impossible because %s", why)
		}
	}
	for i := range rules {
		for j := range matrixStates {
			if name := rules[i].name + " × " + matrixStates[j].name; !visited[name] &&
				(!rules[i].asked || rules[i].applies(matrixStates[j].class)) {
				t.Errorf("no cell of %s was checked", name)
			}
		}
	}
	t.Logf("%d cells of %d checked, %d wrong; impossible: %v", checked, len(all), wrong, ruled)
}
