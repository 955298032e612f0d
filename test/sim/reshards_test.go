package sim

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// In a world of reshards new shards replace the shards several times, and movers move the
// notices of old shards. Any instance may be a mover, between any two steps of another
// mover. A batch may be imported late, twice, or by another mover. An instance does not
// notice a reshard before a call of it is refused.

// mostReshards is the maximum number of reshards in one run.
const mostReshards = 4

// batch is a batch that a mover has exported from an old shard.
type batch struct {
	store.Moving
	by      *store.Store
	who     string
	arrived bool // the import was acknowledged
	stay    []string
}

func (w *world) reshardsActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"replace one": w.deploy,
		"announce":    func(t *rapid.T) { w.announce(t, pick(t, "instance", w.instances), drawFate(t)) },
		"move out":    func(t *rapid.T) { w.moveOut(t, pick(t, "instance", w.instances), drawFate(t)) },
		"move in":     func(t *rapid.T) { w.moveIn(t, drawFate(t)) },
		"move end":    func(t *rapid.T) { w.moveEnd(t, drawFate(t)) },
		"finish":      w.finish,
		"drain":       w.drain,
		"move all":    func(t *rapid.T) { w.moveAll(pick(t, "instance", w.instances)) },
		"move, lose":  w.moveAndForget,
	}
}

// found starts an instance, which reads the layout.
func (w *world) found(in *instance) {
	now, _, err := store.Discover(w.ctx, w.client, keys.Space{Namespace: space.Namespace}, false)
	if err != nil {
		w.t.Fatalf("read the number of shards: %v", err)
	}
	in.store = w.storeIn(now, in.own)
	if err := in.store.Layout.Learn(w.ctx); err != nil {
		w.t.Fatalf("learn the layout: %v", err)
	}
}

// drawPlace draws a place that an instance knows, most often one that holds a notice.
func (w *world) drawPlace(t *rapid.T, in *instance) int {
	if k := rapid.IntRange(0, w.keyCount).Draw(t, "place of key"); k < w.keyCount {
		if n := &w.notes[k]; n.state != "" && n.place < in.store.Space().Places() {
			return n.place
		}
	}
	return rapid.IntRange(0, in.store.Space().Places()-1).Draw(t, "place")
}

// lose sets the fate of one of a call's scripts, and sometimes runs a step of a mover, or
// another reshard, between two of them.
func (w *world) lose(t *rapid.T, f fate) {
	if w.kind != reshards {
		w.wire.lose(f)
		return
	}
	after := 0
	if f != arrives {
		after = rapid.IntRange(0, 3).Draw(t, "of script")
	}
	w.wire.loseAfter(after, f)
	if rapid.IntRange(0, 2).Draw(t, "meanwhile") > 0 {
		return
	}
	in, what := pick(t, "meanwhile instance", w.instances), rapid.IntRange(0, 5).Draw(t, "meanwhile what")
	w.wire.interrupt(rapid.IntRange(0, 3).Draw(t, "behind script"), func() {
		w.within = true
		defer func() { w.within = false }()
		w.say("meanwhile:")
		switch what {
		case 0:
			w.announce(t, in, arrives)
		case 1:
			w.moveOut(t, in, arrives)
		case 2:
			w.moveIn(t, arrives)
		case 3:
			w.moveEnd(t, arrives)
		default:
			w.moveAll(in)
		}
	})
}

// left returns the fate that the call really had. A call with too few scripts arrives.
func (w *world) left(f fate) fate {
	if left, _ := w.wire.lost(); left != arrives {
		return arrives
	}
	return f
}

// seenBefore returns seen of a key before a call, in worlds of reshards.
func (w *world) seenBefore(k int) string {
	if w.kind != reshards {
		return ""
	}
	return w.seen(k)
}

// nothing reports whether a call without a reply has changed nothing.
func (w *world) nothing(k int, f fate, before string) bool {
	if w.kind != reshards {
		return f == requestLost
	}
	return f != arrives && w.seen(k) == before
}

// skip skips the step, unless the step runs within another call.
func (w *world) skip(t *rapid.T) {
	if !w.within {
		t.SkipNow()
	}
}

// announce has an instance replace the shards that it knows. Of two instances that know
// the same shards, only the first succeeds.
func (w *world) announce(t *rapid.T, in *instance, f fate) {
	before := w.space()
	if len(w.layouts) > mostReshards {
		w.skip(t)
		return
	}
	knows := in.store.Space().Now()
	n := rapid.IntRange(1, 3).Draw(t, "shards")
	w.say("%s replaces the shards it knows by %d new ones; it knows %v, old %v%s", in.id, n, knows.Tags, knows.Former, f)
	w.wire.lose(f)
	w.wire.announces = true
	err := in.store.Layout.Announce(w.ctx, in.store.Space().Replace(n, false))
	w.wire.announces = false
	w.wire.lose(arrives)
	grown, late := w.space().Places() > before.Places(), !knows.Same(before)
	if grown != (!late && f != requestLost) || (err == nil) != (!late && f == arrives) {
		t.Fatalf("%s knew %d of %d places; announced %v, %v", in.id, knows.Places(), before.Places(), grown, err)
	}
	if grown {
		w.endStrays()
	}
}

// moveOut exports notices from an old shard. Claimed notices and notices with an expired
// lease stay, and a shard has one exported batch at a time.
func (w *world) moveOut(t *rapid.T, in *instance, f fate) {
	from := in.store.Layout.OldShards()
	if len(from) == 0 {
		w.skip(t)
		return
	}
	place, first := pick(t, "from", from), rapid.IntRange(0, w.keyCount-1).Draw(t, "key")
	to, some := in.store.Space().Shard(w.key(first)), []int{}
	for k := range w.notes {
		if in.store.Space().Shard(w.key(k)) == to && (k == first || !rapid.Bool().Draw(t, "alone")) {
			some = append(some, k)
		}
	}
	w.takeOut(t, in, f, place, some)
}

// takeOut exports some keys, all to one place.
func (w *world) takeOut(t *rapid.T, in *instance, f fate, place int, some []int) {
	s := w.relocate(w.within)
	knew := in.store.Space().Now()
	to := knew.Shard(w.key(some[0]))
	var names []string
	going, held := []int{}, 0
	for _, k := range some {
		n := &w.notes[k]
		names = append(names, w.key(k))
		if n.place == place && !n.away && n.state != "" && s.lies[k].place == place {
			if n.lapses > 0 {
				held++
			} else {
				going = append(going, k)
			}
		}
	}
	w.say("%s moves %v out of place %d, to place %d%s", in.id, names, place, to, f)
	w.wire.lose(f)
	l, stays, err := in.store.Layout.MoveOut(w.ctx, keys.Partition{Prefix: prefix, Shard: place}, to, names)
	w.wire.lose(arrives)
	late := in.store.Space().Places() > knew.Places()
	if late && err == nil {
		t.Fatalf("%s was not refused, and did not know that place %d is an old shard", in.id, to)
	}
	now := w.relocate(w.within)
	busy := s.at(place).number != 0
	gone := !late && !busy && f != requestLost && len(going) > 0
	for _, k := range going {
		if n := &w.notes[k]; n.away != gone || gone && (n.place != place || n.to != to) {
			t.Fatalf("key %d is %s, in %+v; exported %v wanted", k, n, now.lies[k], gone)
		}
	}
	switch {
	case late:
		return
	case busy && f == arrives:
		if !errors.Is(err, store.ErrMoving) {
			t.Fatalf("two batches leave place %d: %v", place, err)
		}
		return
	case f != arrives || busy:
		if err == nil {
			t.Fatalf("answered%s", f)
		}
		return
	case err != nil || l.Len() != len(going) || stays.All() != held:
		t.Fatalf("%d left place %d, want %d; %d stayed, want %d; %v", l.Len(), place, len(going), stays, held, err)
	}
	if l.Len() > 0 {
		if s.at(place).number != 0 || now.at(place).number != int(l.Number) {
			t.Fatalf("batch %d is exported, the reply has the number %d", now.at(place).number, l.Number)
		}
		w.batches = append(w.batches, &batch{Moving: l, by: in.store, who: in.id})
	}
}

// moveAndForget exports a batch, has Redis lose the export, exports another batch, and then
// imports the first.
func (w *world) moveAndForget(t *rapid.T) {
	in := pick(t, "instance", slices.DeleteFunc(slices.Clone(w.instances), func(in *instance) bool {
		return len(in.store.Layout.OldShards()) == 0
	}))
	first, had := rapid.IntRange(0, w.keyCount-1).Draw(t, "key"), len(w.batches)
	place := w.notes[first].place
	if !slices.Contains(in.store.Layout.OldShards(), place) {
		t.SkipNow()
	}
	w.save(t)
	w.takeOut(t, in, arrives, place, []int{first})
	if len(w.batches) == had {
		return
	}
	b := w.batches[had]
	w.restart(t)
	w.takeOut(t, in, arrives, place, []int{rapid.IntRange(0, w.keyCount-1).Draw(t, "other key")})
	w.bringIn(t, b, arrives)
}

// moveIn imports a batch, perhaps late or a second time.
func (w *world) moveIn(t *rapid.T, f fate) {
	if len(w.batches) == 0 {
		w.skip(t)
		return
	}
	b := pick(t, "batch", w.batches)
	if rapid.IntRange(0, 3).Draw(t, "for the last time") == 0 {
		w.batches = slices.DeleteFunc(w.batches, func(o *batch) bool { return o == b })
	}
	w.bringIn(t, b, f)
}

// bringIn imports one batch.
func (w *world) bringIn(t *rapid.T, b *batch, f fate) {
	s := w.relocate(w.within)
	w.say("%s imports batch %d of place %d into place %d%s", b.who, b.Number, b.From.Shard, b.To, f)
	w.wire.lose(f)
	stay, err := b.by.Layout.MoveIn(w.ctx, b.Moving)
	if !w.sentOr(f, err) {
		return
	}
	if len(stay) > 0 {
		t.Fatalf("%v must stay", stay)
	}
	b.arrived, b.stay = true, stay
	now := w.relocate(w.within)
	if p := now.at(b.From.Shard); s.at(b.From.Shard).number == int(b.Number) && (p.number != int(b.Number) || !p.arrived) {
		t.Fatalf("batch %d of place %d is not imported", b.Number, b.From.Shard)
	}
}

// sentOr checks a call's error as sent does. Within another call, no error is allowed and
// the other call's fate stays set.
func (w *world) sentOr(f fate, err error) bool {
	if !w.within {
		return w.sent(f, err)
	}
	if err != nil {
		w.t.Fatalf("meanwhile: %v", err)
	}
	return true
}

// moveEnd commits an imported batch, and fails if another batch is deleted.
func (w *world) moveEnd(t *rapid.T, f fate) {
	list := slices.DeleteFunc(slices.Clone(w.batches), func(b *batch) bool { return !b.arrived })
	if len(list) == 0 {
		w.skip(t)
		return
	}
	b := pick(t, "batch", list)
	s := w.relocate(w.within)
	w.say("%s commits batch %d of place %d%s", b.who, b.Number, b.From.Shard, f)
	w.wire.lose(f)
	err := b.by.Layout.MoveEnd(w.ctx, b.Moving, b.stay)
	w.sentOr(f, err)
	was, is := s.at(b.From.Shard).number, w.relocate(w.within).at(b.From.Shard).number
	want := was
	if was == int(b.Number) && f != requestLost {
		want = 0
	}
	if is != want {
		t.Fatalf("the exported batch of place %[2]d was %[1]d and is %[3]d, want %[4]d", was, b.From.Shard, is, want)
	}
}

// finish has an instance complete the exported batch of a place, by any mover.
func (w *world) finish(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	place := rapid.IntRange(0, in.store.Space().Places()-1).Draw(t, "place")
	f := drawFate(t)
	knew := in.store.Space().Places()
	w.say("%s finishes the batch of place %d%s", in.id, place, f)
	w.wire.loseAfter(rapid.IntRange(0, 1).Draw(t, "of script"), f)
	err := in.store.Layout.Finish(w.ctx, place)
	if in.store.Space().Places() > knew { // the instance did not know the target
		w.wire.lose(arrives)
		return
	}
	if w.sent(w.left(f), err) && w.relocate(false).at(place).number != 0 {
		t.Fatalf("place %d still has an exported batch", place)
	}
}

// drain has an instance check whether old shards are empty.
func (w *world) drain(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	f := drawFate(t)
	w.say("%s checks the old shards%s", in.id, f)
	w.lose(t, f)
	left, err := in.store.Layout.Drained(w.ctx, nil)
	f = w.left(f)
	w.wire.lose(arrives)
	if err != nil && f == arrives && in.store.Space().Places() == w.space().Places() && !errors.Is(err, wire.ErrUnavailable) {
		t.Fatalf("%s checks the old shards: %v", in.id, err)
	}
	if err == nil {
		in.stale = false
	}
	w.say("%d hold something, %v may", left, in.store.Layout.OldShards())
}

// compareOldShards fails if an instance considers an old shard empty that holds a notice.
// An instance is exempt after Redis lost writes, until it has checked the old shards again.
func (w *world) compareOldShards() {
	for _, in := range w.instances {
		if in.stale {
			continue
		}
		first := in.store.Space().First()
		for k := range w.notes {
			if n := &w.notes[k]; n.state != "" && n.place < first && !slices.Contains(in.store.Layout.OldShards(), n.place) {
				w.t.Fatalf("%s knows the old shards %v; key %d, %s, is in place %d", in.id, in.store.Layout.OldShards(), k, n, n.place)
			}
		}
	}
}

// moveAll moves all movable notices by the layout that an instance knows.
func (w *world) moveAll(in *instance) {
	w.say("%s moves all that it can", in.id)
	w.wire.lose(arrives)
	knew := in.store.Space().Places()
	from := move.On(in.store)
	m := move.Mover{From: from, To: from}
	_, err := m.Pass(w.ctx)
	now := in.store.Space().Now()
	if now.Places() > knew {
		return // another reshard came first
	}
	if err != nil {
		w.t.Fatalf("%s moves all: %v", in.id, err)
	}
	w.relocate(w.within)
	for k := range w.notes {
		if n := &w.notes[k]; !w.within && n.state != "" && n.lapses == 0 && n.place < now.First() &&
			(n.away || slices.Contains(in.store.Layout.OldShards(), n.place)) {
			w.t.Fatalf("key %d, %s, is still in place %d, exported %v", k, n, n.place, n.away)
		}
	}
}

// trimPlace trims the finalized notices of a place. After a reshard to fewer shards, each
// shard keeps proportionally more.
func (w *world) trimPlace(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	place := w.drawPlace(t, in)
	knows := in.store.Space().Now()
	keeps := 1
	if n := len(knows.Replaced); n > 0 {
		keeps = max(1, (knows.Replaced[n-1]+knows.Shards-1)/knows.Shards)
	}
	s, ended := w.relocate(false), 0
	for k := range w.notes {
		if n := &w.notes[k]; n.place == place && !n.away && (n.state == notice.Delivered || n.state == notice.Cancelled) {
			ended++
		}
	}
	w.say("%s trims place %d to %d finalized notices", in.id, place, keeps)
	got, _, err := in.store.Trim(w.ctx, place, []store.Trim{{Prefix: prefix}}, mostKeys)
	if want := max(0, ended-keeps); err != nil || got != want {
		t.Fatalf("%d of %d were trimmed, want %d; %v", got, ended, want, err)
	}
	for now := w.survey(); got > 0; got-- {
		gone := slices.IndexFunc(w.notes[:], func(n note) bool { return n.state != "" && n.place == place && !n.away })
		for k := range w.notes {
			if s.lies[k].place >= 0 && now.lies[k].place < 0 && w.notes[k].state != "" {
				gone = k
			}
		}
		w.gone(gone)
	}
}

// gone removes the notice of a key from the model.
func (w *world) gone(k int) {
	w.notes[k] = note{place: w.notes[k].place, writes: w.notes[k].writes + 1, stands: w.notes[k].stands}
}

func (s spot) String() string {
	if s.away {
		return fmt.Sprintf("exported from %d to %d", s.place, s.to)
	}
	return fmt.Sprint("place ", s.place)
}
