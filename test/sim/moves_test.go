package sim

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/store"
)

// In a world of moves a deployment is under way: some instances have a route of
// the keys that others do not have, and each moves what it finds under a prefix
// that is not that of its own route.

// moving is what an instance has read and is about to move.
type moving struct {
	store    *store.Store
	who      string
	from, to string
	keys     []string
}

func (w *world) movesActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"kept":        func(t *rapid.T) { w.kept(t) },
		"move":        w.move,
		"move kept":   func(t *rapid.T) { w.moveOn(t, w.kept(t), drawFate(t)) },
		"replace one": w.deploy,
	}
}

// by tells which instance a call comes to, where that matters.
func (w *world) by(in *instance) string {
	if !w.kind.many() {
		return ""
	}
	return " by " + in.id
}

// where tells under which prefix, or in which place, where there is more than one.
func (w *world) where(p keys.Partition) string {
	switch w.kind {
	case moves:
		return " under " + p.Prefix
	case reshards:
		return fmt.Sprintf(" in place %d", p.Shard)
	}
	return ""
}

// serving are the instances that claim what lies where n does.
func (w *world) serving(n *note) []*instance {
	return slices.DeleteFunc(slices.Clone(w.instances), func(in *instance) bool {
		return !slices.Contains(in.own, n.under) || in.store.Space().Places() <= n.place
	})
}

// deploy ends an instance that has nothing in hand, and starts another.
func (w *world) deploy(t *rapid.T) {
	in := pick(t, "instance", slices.DeleteFunc(slices.Clone(w.instances), func(in *instance) bool { return len(in.jobs)+len(in.called) > 0 }))
	w.say("%s ends", in.id)
	*in = *w.newInstance(t)
}

// kept: an instance reads what lies under a prefix that is not that of its route.
func (w *world) kept(t *rapid.T) moving {
	in := pick(t, "instance", w.instances)
	from := pick(t, "from", slices.DeleteFunc(slices.Clone(w.under), func(p string) bool { return p == in.route() }))
	ks, next, err := in.store.Kept(w.ctx, at(from), 0, 100)
	if err != nil || next != 0 {
		t.Fatalf("what lies under %s: %v, cursor %d", from, err, next)
	}
	want := 0
	for k := range w.notes {
		if n := &w.notes[k]; n.state != "" && n.under == from {
			want++
		}
	}
	if len(ks) != want {
		t.Fatalf("%v lie under %s, want %d", ks, from, want)
	}
	if want == 0 {
		t.SkipNow()
	}
	w.say("%s reads what lies under %s: %v", in.id, from, ks)
	m := moving{in.store, in.id, from, in.route(), ks}
	w.moving = append(w.moving, m)
	return m
}

// move moves what was read, once or again: between the two anything may happen,
// and who read it may have died.
func (w *world) move(t *rapid.T) {
	i := rapid.IntRange(0, max(len(w.moving)-1, 0)).Draw(t, "read")
	if len(w.moving) == 0 {
		t.SkipNow()
	}
	m := w.moving[i]
	if rapid.Bool().Draw(t, "for the last time") {
		w.moving = slices.Delete(slices.Clone(w.moving), i, i+1)
	}
	w.moveOn(t, m, drawFate(t))
}

func (w *world) moveOn(t *rapid.T, m moving, f fate) {
	w.say("%s moves what it read from %s to %s%s", m.who, m.from, m.to, f)
	w.wire.lose(f)
	moved, stuck, err := m.store.Rehome(w.ctx, at(m.from), m.to, m.keys)
	answered := w.sent(f, err)
	if f == requestLost {
		return
	}
	want := 0
	for k := range w.notes {
		n := &w.notes[k]
		if !slices.Contains(m.keys, key(k)) || n.held() {
			continue
		}
		want++ // also if another has moved it before
		if n.state != "" && n.under == m.from {
			n.under = m.to
		}
	}
	if answered && (moved != want || len(stuck) > 0) {
		t.Fatalf("%d were moved, want %d; stuck are %v", moved, want, stuck)
	}
}
