package sim

import (
	"errors"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/store"
)

// dump reads all keys, as a snapshot on disk would hold them.
var dump = redis.NewScript(`
local reply = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local at = redis.call('PEXPIRETIME', key)
  local text = redis.call('DUMP', key)
  if text then
    reply[#reply + 1] = key
    reply[#reply + 1] = at
    reply[#reply + 1] = text
  end
end
return reply`)

// load restores the keys, as a restarted server does. Keys that have expired since are
// dropped without an event.
var load = redis.NewScript(`
redis.call('FLUSHDB')
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 1, #ARGV, 3 do
  local at = tonumber(ARGV[i + 1])
  if at < 0 then
    redis.call('RESTORE', ARGV[i], 0, ARGV[i + 2])
  elseif now <= at then
    redis.call('RESTORE', ARGV[i], at, ARGV[i + 2], 'ABSTTL')
  end
end
return redis.status_reply('OK')`)

// save sets the state that a later restart restores.
func (w *world) save(t *rapid.T) {
	v, err := dump.Run(w.ctx, w.plain, nil).Slice()
	if err != nil {
		t.Fatal(err)
	}
	w.say("Redis has written all so far to its disk")
	w.disk = &disk{dump: v, notes: w.notes, flights: maps.Clone(w.flights), timers: w.timers, list: slices.Clone(w.list),
		endings: slices.Clone(w.endings), held: w.held, deaths: slices.Clone(w.deaths), last: map[*replaying]map[int]int{},
		layouts: len(w.layouts)}
	for _, r := range w.replays {
		w.disk.last[r] = maps.Clone(r.last)
	}
}

// restart restores the saved state and flushes the scripts. All later writes are lost.
func (w *world) restart(t *rapid.T) {
	if w.disk == nil {
		t.SkipNow()
	}
	w.say("Redis restarts and loses the writes since")
	if err := load.Run(w.ctx, w.plain, nil, w.disk.dump...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := w.plain.ScriptFlush(w.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if w.kind == adoption {
		w.lab.events(w.ctx, t) // a real restart sends no events
		for _, in := range w.instances {
			in.events = nil
		}
	}
	w.notes, w.timers, w.list = w.disk.notes, w.disk.timers, slices.Clone(w.disk.list)
	w.flights = w.disk.flights
	w.endings, w.held = slices.Clone(w.disk.endings), w.disk.held
	w.deaths, w.hooks = slices.Clone(w.disk.deaths), nil
	for _, r := range w.replays {
		r.last = map[int]int{}
		maps.Copy(r.last, w.disk.last[r])
	}
	if w.kind == reshards {
		w.forgetShards(w.disk.layouts)
	}
	w.disk = nil
}

// forgetShards drops all but the first layouts from the model, in worlds of reshards. After
// it, instances know layouts that Redis has lost, and movers hold batches whose export
// Redis has lost.
func (w *world) forgetShards(layouts int) {
	w.layouts = slices.Clone(w.layouts[:layouts])
	s := w.survey()
	w.knew = w.knew[:0]
	for _, p := range s.places {
		w.knew = append(w.knew, p.knows)
	}
	for _, in := range w.instances {
		in.stale = true
	}
	n := len(s.places)
	w.reopen = slices.DeleteFunc(w.reopen, func(r reopening) bool { return r.found.Shard >= n })
	w.resends = slices.DeleteFunc(w.resends, func(r resending) bool { return r.found.Shard >= n })
	for _, e := range w.taken {
		if e.found != nil && e.found.Shard >= n {
			e.found = nil
		}
	}
	w.replays = slices.DeleteFunc(slices.Clone(w.replays), func(r *replaying) bool { return r.space.Places() > n })
}

// endStrays restarts instances whose layout contradicts Redis's. Such an instance knows a
// reshard that Redis has lost, and must refuse all work until its restart.
func (w *world) endStrays() {
	now := w.space()
	for _, in := range w.instances {
		knows := in.store.Space().Now()
		if knows.Same(now) || knows.Grows(now) || now.Grows(knows) {
			continue
		}
		if err := in.store.Layout.Learn(w.ctx); !errors.Is(err, store.ErrLayout) {
			w.t.Fatalf("%s knows the layout %+v, Redis has %+v: %v", in.id, knows, now, err)
		}
		w.say("%s knows shards that Redis has lost, and ends", in.id)
		w.batches = slices.DeleteFunc(w.batches, func(b *batch) bool { return b.by == in.store })
		w.dead = append(w.dead, in.id)
		*in = *w.newInstance(w.t)
	}
}
