package sim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// In a world of migrations, notices move between two servers in both directions. Producers
// call both sides, and instances of both sides claim and settle. A mover is killed before
// or after any of its commands; the next mover continues or reverses the move. A mover may
// also be stopped until another one has run, and then continue.
//
// After each step a notice is in one place or exported, and claimable in one place at most.
// A call on either side may be refused as moved. No call reports an existing notice as not
// found, and none creates its key a second time.

// mostCommands is the approximate number of commands that a mover sends.
const mostCommands = 120

// shore is one of the two servers.
type shore struct {
	name   string
	srv    *testkit.Redis
	plain  *redis.Client
	conn   *wire.Conn // of its instances
	tap    *tap       // on conn
	stores [2]*store.Store
	begun  bool // a migration has written to the server, so that producers may call it
}

// ferry is one run in a world of migrations.
type ferry struct {
	t      *rapid.T
	ctx    context.Context
	shores [2]*shore
	order  order // of the route on both sides
	facts  [4]condition
	jobs   []*task
	steps  *int
	serial int
	depth  int // of nested interruptions: a mover during a call, a call during a mover
}

// condition is the reference model of a key.
type condition struct {
	state  notice.State // "", scheduled (also while it is claimed), delivered, cancelled, dead, settled (trimmed: only a tombstone is kept)
	made   notice.Made
	far    bool // due in an hour
	holder string
	lasts  bool // the holder's lease is an hour
	lapses int
	buried bool // a notice of the key has been trimmed
}

// kept reports whether a record exists.
func (f *condition) kept() bool { return f.state != "" && f.state != notice.Settled }

// task is a claim of an instance.
type task struct {
	on    *shore
	key   int
	token string
	made  notice.Made
	claim store.Claim
}

func (f *condition) held() bool { return f.state == notice.Scheduled && f.holder != "" && f.lasts }

// TestMigrationsReversedAtAnyCommandLoseNothing takes steps in worlds of migrations.
func TestMigrationsReversedAtAnyCommandLoseNothing(t *testing.T) {
	l, begun, want := &lab{}, time.Now(), *stepsFlag*migrationsPercent/100
	shores := newShores(t)
	from := seed(*seedFlag)
	l.repeat(t, from, want, 10*time.Second, func(rt *rapid.T) { newFerry(rt, shores, &l.steps).run(rt) })
	summarize(&summary.lines,
		"- %d steps in worlds of migrations between two servers, turned round and killed at any command, from seed %d on, in %.0f s: "+
			"nothing found.",
		l.steps, from, time.Since(begun).Seconds())
}

// migrationsPercent is the share of the steps that worlds of migrations get.
const migrationsPercent = 20

func newShores(t *testing.T) (shores [2]*shore) {
	t.Helper()
	for i, name := range []string{"A", "B"} {
		srv := testkit.StartRedis(t)
		c, err := wire.Open(wire.Address{URL: srv.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		s := &shore{name: name, srv: srv, plain: srv.Client(), conn: c, tap: &tap{}}
		c.AddHook(s.tap)
		shores[i] = s
	}
	return shores
}

func newFerry(t *rapid.T, shores [2]*shore, steps *int) *ferry {
	w := &ferry{t: t, ctx: context.Background(), shores: shores, steps: steps}
	for i, s := range shores {
		s.tap.clear()
		if err := s.plain.FlushDB(w.ctx).Err(); err != nil {
			t.Fatal(err)
		}
		s.begun = i == 0
		for j := range s.stores {
			s.stores[j] = w.newStore(s, i+1)
		}
	}
	w.drawOrder(t)
	return w
}

func (w *ferry) run(rt *rapid.T) {
	rt.Repeat(map[string]func(*rapid.T){
		"":           func(t *rapid.T) { w.t = t; *w.steps++; w.look() },
		"schedule":   func(t *rapid.T) { w.during(t, func() { w.schedule(t) }) },
		"cancel":     func(t *rapid.T) { w.during(t, func() { w.amend(t, store.Cancel) }) },
		"reschedule": func(t *rapid.T) { w.during(t, func() { w.amend(t, store.Reschedule) }) },
		"fire":       func(t *rapid.T) { w.during(t, func() { w.amend(t, store.Fire) }) },
		"find":       func(t *rapid.T) { w.during(t, func() { w.find(t) }) },
		"claim":      w.claim,
		"settle":     w.settle,
		"die":        w.die,
		"forget":     w.forget,
		"trim": func(t *rapid.T) {
			if !w.trim(t) {
				t.SkipNow()
			}
		},
		"begin":   w.begin,
		"migrate": func(t *rapid.T) { w.migrate(t, rapid.IntRange(0, 1).Draw(t, "from"), w.killed(t)) },
		"stop":    w.stop,
	})
	w.end()
}

func (w *ferry) say(format string, args ...any) { w.t.Logf(format, args...) }

// newStore returns the store of an instance. The first one of a side sets its shard count.
func (w *ferry) newStore(s *shore, shards int) *store.Store {
	now, _, err := store.Discover(w.ctx, s.conn, keys.Space{Namespace: space.Namespace}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	if s.plain.Exists(w.ctx, space.Meta()).Val() == 0 {
		now.Shards = shards
	}
	x := store.New(store.Options{Client: s.conn.Commander, Space: now, Prefixes: []string{prefix}, Retention: time.Hour,
		RepeatWindow: time.Hour, RepeatBytes: 1 << 20})
	if err := x.Wire().Detect(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	if err := x.Layout.Learn(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	return x
}

// begin replaces an instance by a new one.
func (w *ferry) begin(t *rapid.T) {
	s := w.shores[rapid.IntRange(0, 1).Draw(t, "side")]
	s.stores[rapid.IntRange(0, 1).Draw(t, "instance")] = w.newStore(s, 1)
}

// caller draws a side that a producer calls, and the instance that answers.
func (w *ferry) caller(t *rapid.T) (*shore, *store.Store) {
	s := w.shores[rapid.IntRange(0, 1).Draw(t, "side")]
	if !s.begun {
		s = w.shores[0]
	}
	return s, s.stores[rapid.IntRange(0, 1).Draw(t, "instance")]
}

// during makes a call, sometimes with a mover between two of the call's commands.
func (w *ferry) during(t *rapid.T, call func()) {
	if w.depth > 0 || rapid.IntRange(0, 2).Draw(t, "meanwhile") > 0 {
		call()
		return
	}
	from, at := rapid.IntRange(0, 1).Draw(t, "meanwhile from"), rapid.IntRange(1, 3).Draw(t, "behind command")
	for _, s := range w.shores {
		s.tap.interrupt(at, func() {
			w.depth++
			defer func() { w.depth-- }()
			_ = w.migrate(t, from, w.killed(t))
		})
	}
	call()
	for _, s := range w.shores {
		s.tap.clear()
	}
}

func (w *ferry) drawKey(t *rapid.T) (int, *condition) {
	k := rapid.IntRange(0, len(w.facts)-1).Draw(t, "key")
	return k, &w.facts[k]
}

func (w *ferry) schedule(t *rapid.T) {
	s, x := w.caller(t)
	k, f := w.drawKey(t)
	r := store.Request{Key: w.key(k), Content: notice.Content{Body: []byte("1")}}
	far := rapid.IntRange(0, 3).Draw(t, "due") > 0
	if far {
		r.Delay = long
	}
	replaces := rapid.IntRange(0, 4).Draw(t, "replaces") == 0
	if replaces {
		r.OnDuplicate = store.Replace
	}
	w.say("key %d is scheduled on %s, far %v, replacing %v; there is %q", k, s.name, far, replaces, f.state)
	out, err := x.Schedule(w.ctx, x.Space().Partition(prefix, r.Key), []store.Request{r})
	if err == nil {
		err = out[0].Err
	}
	switch {
	case errors.Is(err, wire.ErrUnavailable):
		w.say("moved")
		return
	case err != nil:
		t.Fatalf("schedule key %d: %v", k, err)
	case out[0].Created && f.state != "" && !replaces:
		t.Fatalf("key %d is created on %s, and exists already: %s, made %d", k, s.name, f.state, f.made)
	case out[0].Created && f.kept() && !out[0].Replaced:
		t.Fatalf("key %d is created on %s and replaces nothing, and exists already: %s", k, s.name, f.state)
	case !out[0].Created && (f.state == "" || out[0].Made != f.made):
		t.Fatalf("key %d made %d is found on %s; there is %q made %d", k, out[0].Made, s.name, f.state, f.made)
	}
	if !out[0].Created && (out[0].State == notice.Settled) != (f.state == notice.Settled) {
		t.Fatalf("key %d is answered as %s on %s; there is %q", k, out[0].State, s.name, f.state)
	}
	if out[0].Created {
		*f = condition{state: notice.Scheduled, made: out[0].Made, far: far, buried: f.buried}
	}
}

func (w *ferry) amend(t *rapid.T, op store.Amendment) {
	s, x := w.caller(t)
	k, f := w.drawKey(t)
	w.say("%s of key %d on %s; there is %q", op, k, s.name, f.state)
	c, err := x.Amend(w.ctx, prefix, w.key(k), op, store.When{Delay: long})
	switch {
	case errors.Is(err, wire.ErrUnavailable):
		w.say("moved")
		return
	case errors.Is(err, store.ErrNotFound):
		if f.kept() {
			t.Fatalf("key %d is not found on %s, and is %s", k, s.name, f.state)
		}
		return
	case err != nil:
		t.Fatalf("%s of key %d: %v", op, k, err)
	case c.Made != f.made:
		t.Fatalf("%s of key %d made %d; there is %q made %d", op, k, c.Made, f.state, f.made)
	case !c.Done:
		return
	}
	switch op {
	case store.Cancel:
		*f = condition{state: notice.Cancelled, made: f.made, buried: f.buried}
	default:
		f.far, f.lapses, f.holder = op == store.Reschedule, 0, ""
	}
}

func (w *ferry) find(t *rapid.T) {
	s, x := w.caller(t)
	k, f := w.drawKey(t)
	w.say("key %d is read on %s; there is %q", k, s.name, f.state)
	got, err := x.Find(w.ctx, prefix, w.key(k))
	switch {
	case errors.Is(err, wire.ErrUnavailable):
		w.say("moved")
	case errors.Is(err, store.ErrNotFound):
		if f.kept() {
			t.Fatalf("key %d is not found on %s, and is %s", k, s.name, f.state)
		}
	case err != nil:
		t.Fatalf("find key %d: %v", k, err)
	case got.Made != f.made:
		t.Fatalf("key %d made %d is found on %s; there is %q made %d", k, got.Made, s.name, f.state, f.made)
	}
}

// killed draws the fate of a mover: the command at which it is killed, if any, and the
// commands after which other calls run.
func (w *ferry) killed(t *rapid.T) *tap {
	p := &tap{}
	if rapid.IntRange(0, 3).Draw(t, "is killed") > 0 {
		p.kill = rapid.IntRange(1, mostCommands).Draw(t, "at command")
		p.after = rapid.Bool().Draw(t, "after it")
	}
	if w.depth == 0 {
		for range rapid.IntRange(0, 3).Draw(t, "calls meanwhile") {
			p.interrupt(rapid.IntRange(1, mostCommands).Draw(t, "behind command"), func() { w.interleave(t) })
		}
	}
	return p
}

// stop runs a mover that is stopped after one of its commands, until another mover has run,
// and then continues.
func (w *ferry) stop(t *rapid.T) {
	p := &tap{}
	p.interrupt(rapid.IntRange(10, mostCommands).Draw(t, "behind command"), func() {
		w.depth++
		defer func() { w.depth-- }()
		w.say("the mover is stopped")
		for range rapid.IntRange(1, 2).Draw(t, "movers") {
			_ = w.migrate(t, rapid.IntRange(0, 1).Draw(t, "meanwhile from"), w.killed(t))
		}
		w.schedule(t)
		w.say("the mover goes on")
	})
	for range rapid.IntRange(0, 2).Draw(t, "calls meanwhile") {
		p.interrupt(rapid.IntRange(1, mostCommands).Draw(t, "behind command"), func() { w.interleave(t) })
	}
	_ = w.migrate(t, rapid.IntRange(0, 1).Draw(t, "from"), p)
}

// migrate runs a mover.
func (w *ferry) migrate(t *rapid.T, from int, p *tap) error {
	if !w.shores[from].begun {
		from = 0 // B is not in use yet. A notice that is made on A meanwhile stops a mover from B, and both are open then.
	}
	w.say("a mover begins, from %s to %s, killed at command %d, after it %v", w.shores[from].name, w.shores[1-from].name, p.kill, p.after)
	done, err := w.mover(from, p)
	w.say("the mover ends after %d commands: open %v, %v", p.n, done.Open, err)
	// A mover that is stopped for seconds, as on a busy machine, notices that another one has taken its lock.
	ends := []error{errKill, wire.ErrUnavailable, move.ErrRefused, move.ErrLockLost}
	if err != nil && !slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) {
		t.Fatalf("the mover: %v", err)
	}
	return err
}

// mover migrates notices over new connections, as a separate process does.
func (w *ferry) mover(from int, p *tap) (move.Migrated, error) {
	var conns [2]*wire.Conn
	for i, s := range w.shores {
		c, err := wire.Open(wire.Address{URL: s.srv.URL()})
		if err != nil {
			w.t.Fatal(err)
		}
		c.AddHook(p)
		defer func() { _ = c.Close() }()
		conns[i] = c
		w.plainly(s.plain.Del(w.ctx, space.Resharding()).Err()) // the hold of the last mover has expired
	}
	defer func() {
		for _, s := range w.shores {
			s.begun = s.begun || s.plain.HExists(w.ctx, space.Meta(), "side").Val()
		}
	}()
	return move.Migrate(w.ctx, move.MigrateOptions{From: conns[from], To: conns[1-from], Names: [2]string{w.shores[from].name,
		w.shores[1-from].name},
		Namespace: space.Namespace, MaxSkew: time.Hour, Force: true, Progress: said{w}})
}

func (w *ferry) plainly(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// interleave makes a call or a claim between two commands of a mover.
func (w *ferry) interleave(t *rapid.T) {
	w.depth++
	defer func() { w.depth-- }()
	for _, s := range w.shores {
		s.begun = s.begun || s.plain.HExists(w.ctx, space.Meta(), "side").Val()
	}
	w.say("meanwhile:")
	switch what := rapid.IntRange(0, 6).Draw(t, "meanwhile what"); {
	case what == 0:
		w.amend(t, store.Cancel)
	case what == 1:
		w.find(t)
	case what == 2:
		w.claim(t)
	case what == 3 && len(w.jobs) > 0:
		w.settle(t)
	case what == 4:
		w.trim(t)
	default:
		w.schedule(t)
	}
	w.look()
}

// records counts, for each key, the records on a server, and the exported batches that
// contain the key.
var records = redis.NewScript(`
local reply = {}
local bases = {}
for _, name in ipairs(redis.call('KEYS', 'notifier:{*}:layout')) do bases[#bases + 1] = string.sub(name, 1, -7) end
for i = 2, #ARGV do
  local there, away = 0, 0
  for _, base in ipairs(bases) do
    there = there + redis.call('HEXISTS', base .. 'records:' .. ARGV[1], ARGV[i])
    away = away + redis.call('HEXISTS', base .. 'moving', ARGV[i])
  end
  reply[#reply + 1], reply[#reply + 2] = there, away
end
return reply`)

// look compares both servers with the model.
func (w *ferry) look() {
	var ks []string
	args := []any{prefix}
	for k := range w.facts {
		ks, args = append(ks, w.key(k)), append(args, w.key(k))
	}
	can, err := claimableIn(w.ctx, ks, w.shores[0].plain, w.shores[1].plain)
	w.plainly(err)
	var counts [2][]int64
	for i, s := range w.shores {
		counts[i], err = records.Run(w.ctx, s.plain, nil, args...).Int64Slice()
		w.plainly(err)
	}
	for k, f := range w.facts {
		there, away := counts[0][2*k]+counts[1][2*k], counts[0][2*k+1]+counts[1][2*k+1]
		switch {
		case there > 1 || can[k] > 1:
			w.t.Fatalf("key %d, %+v, has %d records and is claimable in %d places", k, f, there, can[k])
		case f.kept() && there+away == 0:
			w.t.Fatalf("key %d, %+v, is lost", k, f)
		case !f.kept() && there > 0:
			w.t.Fatalf("key %d exists, and should not", k)
		}
	}
	w.checkSequences()
}

// end completes a migration in either direction, and compares all notices with the model.
func (w *ferry) end() {
	from := 0
	if w.shores[1].begun {
		from = rapid.IntRange(0, 1).Draw(w.t, "at last from")
	}
	w.say("at last from %s", w.shores[from].name)
	for round := 0; ; round++ {
		for len(w.jobs) > 0 {
			w.settleAs(w.jobs[0], store.EndDelivered, false)
		}
		for _, s := range w.shores {
			for place := range s.stores[0].Space().Places() {
				for w.claimIn(s, s.stores[0], place, store.Lease{For: long}) > 0 {
					for len(w.jobs) > 0 {
						w.settleAs(w.jobs[0], store.EndDelivered, false)
					}
				}
			}
		}
		done, err := w.mover(from, &tap{})
		if err != nil || !done.Open {
			w.t.Fatalf("the last migration returns %+v, %v", done, err)
		}
		w.look()
		if done.Claimed+done.Soon == 0 {
			break
		}
		if round > 5 {
			w.t.Fatalf("the migration does not end: %+v", done)
		}
	}
	to := w.shores[1-from]
	for k, f := range w.facts {
		got, err := to.stores[1].Find(w.ctx, prefix, w.key(k))
		switch {
		case f.state == "" && errors.Is(err, store.ErrNotFound):
		case f.state == notice.Settled && errors.Is(err, store.ErrNotFound):
			w.recognises(to, k)
		case err != nil || got.State != f.state || got.Made != f.made || got.Shard < 0:
			w.t.Fatalf("key %d is %+v on %s, %v; want %+v", k, got, to.name, err, f)
		}
		if _, err := w.shores[from].stores[0].Find(w.ctx, prefix, w.key(k)); !errors.Is(err, wire.ErrMoved) {
			w.t.Fatalf("find key %d on the source: %v, want moved", k, err)
		}
	}
	if side := to.stores[1].Layout.Side(); side.State != store.SideOpen {
		w.t.Fatalf("%s is %s at last", to.name, side.State)
	}
}
