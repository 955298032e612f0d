package sim

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"notifier/internal/store"
)

// In every world the routes have a hook. Each death is appended to the outbox of hooks, and stays there
// until an instance that has scheduled the hook's notice removes it.

var deathMutations = []mutation{
	{"a late nack that ends a notice adds no death", "if entry ~= '' then", "if false then", ""},
	{"a settle of another claim adds a death", "  if refused or not ours then\n    answer = refused",
		"  if refused or not ours then\n    if death then call('RPUSH', match(KEYS[1], '^(.-}:)') .. 'deaths', " +
			"format('%.0f', reply[1]) .. ' ' .. death) end\n    answer = refused", ""},
	{"a redriven notice adds a second death", "op == 'redrive' and before == 'dead' and not late then",
		"op == 'redrive' and before == 'dead' and not late then\n    " +
			"redis.call('RPUSH', string.match(KEYS[1], '^(.-}:)') .. 'deaths', t[1] .. ' k-1 hook " +
			"{}')", ""},
}

// readDeaths holds entries of a shard's outbox of hooks whose notices an instance has scheduled.
type readDeaths struct {
	shard int
	texts []string
}

// death returns the entry of key k's notice, should it die.
func (w *world) death(k int, body, used int) *store.Death {
	return &store.Death{Hook: "hook", Facts: fmt.Appendf(nil, `{"key":%d,"body":%d,"used":%d}`, k, body, used)}
}

// addDeath records in the model that a notice becomes a dead letter in a shard.
func (w *world) addDeath(d *store.Death) { w.deaths = append(w.deaths, string(d.Facts)) }

// compareDeaths compares the outboxes of hooks with the model, and fails if two deaths have one id.
func (w *world) compareDeaths() {
	var all []store.Death
	ids := map[string]bool{}
	for _, texts := range w.deathTexts() {
		for _, text := range texts {
			d, err := store.ReadDeath(text)
			if err != nil || d.Hook != "hook" || ids[d.ID] {
				w.t.Fatalf("%s: %+v, %v", text, d, err)
			}
			ids[d.ID] = true
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b store.Death) int { return a.At.Compare(b.At) })
	have := []string{}
	for _, d := range all {
		have = append(have, string(d.Facts))
	}
	if !slices.Equal(have, w.deaths) {
		w.t.Fatalf("the outbox of hooks has %q, want %q", have, w.deaths)
	}
}

// deathTexts returns the entries of each shard's outbox of hooks.
func (w *world) deathTexts() (all [][]string) {
	for shard := range w.layouts[len(w.layouts)-1].Places() {
		texts, err := w.plain.LRange(w.ctx, w.layouts[len(w.layouts)-1].Deaths(shard), 0, -1).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, texts)
	}
	return all
}

func (w *world) deathActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){"scheduleHooks": w.scheduleHooks, "forgetDeaths": w.forgetDeaths}
}

// scheduleHooks has an instance read deaths, and schedule their hook's notices.
func (w *world) scheduleHooks(t *rapid.T) {
	all := w.deathTexts()
	r := readDeaths{shard: rapid.IntRange(0, len(all)-1).Draw(t, "shard")}
	r.texts = all[r.shard][:min(len(all[r.shard]), rapid.IntRange(1, 3).Draw(t, "deaths"))]
	if len(r.texts) == 0 {
		t.SkipNow()
	}
	w.say("the hook's notices of the first %d deaths of shard %d are scheduled", len(r.texts), r.shard)
	w.hooks = append(w.hooks, r)
}

// forgetDeaths removes deaths whose hook's notices are scheduled, perhaps again.
func (w *world) forgetDeaths(t *rapid.T) {
	if len(w.hooks) == 0 {
		t.SkipNow()
	}
	r := pick(t, "deaths", w.hooks)
	if rapid.Bool().Draw(t, "for the last time") {
		w.hooks = slices.DeleteFunc(w.hooks, func(o readDeaths) bool { return &o.texts[0] == &r.texts[0] })
	}
	w.say("%d deaths of shard %d are removed", len(r.texts), r.shard)
	if err := w.store.ForgetDeaths(w.ctx, r.shard, r.texts); err != nil {
		t.Fatal(err)
	}
	for _, text := range r.texts {
		d, err := store.ReadDeath(text)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.Index(w.deaths, string(d.Facts)); i >= 0 {
			w.deaths = slices.Delete(slices.Clone(w.deaths), i, i+1)
		}
	}
}
