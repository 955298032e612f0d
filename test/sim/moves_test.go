package sim

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/reconcile"
	"notifier/internal/store"
)

// In a world of moves a deployment is in progress: instances have different routes for the
// same keys. Each instance moves notices from other prefixes to the prefix of its route.

// moving holds keys that an instance has read and will move.
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

// by names the instance that answers a call, in worlds where instances differ.
func (w *world) by(in *instance) string {
	if !w.kind.many() {
		return ""
	}
	return " by " + in.id
}

// where names the prefix or place of a partition, in worlds with more than one.
func (w *world) where(p keys.Partition) string {
	switch w.kind {
	case moves:
		return " under " + p.Prefix
	case reshards:
		return fmt.Sprintf(" in place %d", p.Shard)
	}
	return ""
}

// serving returns the instances that claim notices in n's partition.
func (w *world) serving(n *note) []*instance {
	return slices.DeleteFunc(slices.Clone(w.instances), func(in *instance) bool {
		return !slices.Contains(in.own, n.under) || in.store.Space().Places() <= n.place
	})
}

// deploy ends an instance that has no claims, and starts another.
func (w *world) deploy(t *rapid.T) {
	in := pick(t, "instance", slices.DeleteFunc(slices.Clone(w.instances), func(in *instance) bool { return len(in.jobs)+len(in.called) > 0 }))
	w.say("%s ends", in.id)
	*in = *w.newInstance(t)
}

// kept has an instance read the keys under a prefix other than its route's.
func (w *world) kept(t *rapid.T) moving {
	in := pick(t, "instance", w.instances)
	from := pick(t, "from", slices.DeleteFunc(slices.Clone(w.under), func(p string) bool { return p == in.route() }))
	ks, next, err := in.store.Layout.ScanKeys(w.ctx, at(from), 0, 100)
	if err != nil || next != 0 {
		t.Fatalf("scan the keys under %s: %v, cursor %d", from, err, next)
	}
	want := 0
	for k := range w.notes {
		if n := &w.notes[k]; n.state != "" && n.under == from {
			want++
		}
	}
	if len(ks) != want {
		t.Fatalf("the keys under %s are %v, want %d", from, ks, want)
	}
	if want == 0 {
		t.SkipNow()
	}
	w.say("%s reads the keys under %s: %v", in.id, from, ks)
	m := moving{in.store, in.id, from, in.route(), ks}
	w.moving = append(w.moving, m)
	return m
}

// move moves keys that kept has read, perhaps again. Any step may run between the two, also
// a crash of the instance that read them.
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
	w.say("%s moves the keys it read from %s to %s%s", m.who, m.from, m.to, f)
	w.wire.lose(f)
	moved, stuck, err := (reconcile.Redis{Store: m.store}).Rehome(w.ctx, at(m.from), m.to, m.keys)
	answered := w.sent(f, err)
	if f == requestLost {
		return
	}
	want := 0
	for k := range w.notes {
		n := &w.notes[k]
		if !slices.Contains(m.keys, w.key(k)) || n.held() {
			continue
		}
		want++ // also if another instance has moved it before
		if n.state != "" && n.under == m.from {
			w.moved(k)
			n.under = m.to
		}
	}
	w.wake(at(m.from))
	w.wake(at(m.to))
	if answered && (moved != want || len(stuck) > 0) {
		t.Fatalf("%d were moved, want %d; stuck are %v", moved, want, stuck)
	}
}
