package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	outbox "notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// In worlds of moves and of adoption there is a history. Finalized notices are appended to
// the outbox, and instances copy its entries to a database, which loses nothing.

// ending is the reference model of an entry of the outbox.
type ending struct {
	key     int
	under   string
	outcome notice.Ending
	body    string
	made    notice.Made
	used    int
}

// brought holds outbox entries that an instance has read and the database has stored.
type brought struct {
	in    *instance
	texts []string
}

// hold is the lease of the instance that copies the outbox.
type hold struct {
	who   string
	lasts bool
}

// ends records in the model that key k's notice is finalized with an outcome.
func (w *world) ends(k int, outcome notice.Ending) {
	n := &w.notes[k]
	w.endings = append(w.endings, ending{k, n.under, outcome, n.text(), n.made, n.used})
}

// replaced records that another notice replaces key k's, unless that one was finalized.
func (w *world) replaced(k int) {
	if n := &w.notes[k]; n.pending() || n.state == notice.Dead {
		w.ends(k, notice.EndReplaced)
	}
}

// compareEndings compares the outbox with the model, and fails if two entries of one
// notice have the same number.
func (w *world) compareEndings() {
	if w.kind == onePrefix {
		return
	}
	texts, err := w.handedOver()
	if err != nil || len(texts) != len(w.endings) {
		w.t.Fatalf("%d entries in the outbox, want %d; %v", len(texts), len(w.endings), err)
	}
	w.texts = texts
	numbers := map[string]bool{}
	for i, text := range texts {
		e, err := store.ReadEntry(text)
		if err != nil {
			w.t.Fatalf("%s: %v", text, err)
		}
		is, want := ending{int(e.Key[len(e.Key)-1] - '0'), e.Route, e.Outcome, string(e.Body), e.Made, e.AttemptsMade}, w.endings[i]
		if is != want {
			w.t.Fatalf("the outbox has the entry %s, want %+v", text, want)
		}
		number := fmt.Sprintf("%s %d %d", e.Key, e.Made, e.Number)
		if numbers[number] {
			w.t.Fatalf("key %d, made at %d, has ended twice as number %d", is.key, is.made, e.Number)
		}
		numbers[number] = true
		made := fmt.Sprintf("%s %d", e.Key, e.Made)
		w.numbers[made] = max(w.numbers[made], e.Number)
	}
}

// handedOver returns the outbox entries of all places, in the order of their outcomes.
func (w *world) handedOver() (texts []string, err error) {
	for p := range w.layouts[len(w.layouts)-1].Places() {
		some, err := w.plain.LRange(w.ctx, w.layouts[len(w.layouts)-1].Ended(p), 0, -1).Result()
		if err != nil {
			return nil, err
		}
		texts = append(texts, some...)
	}
	if w.kind == reshards {
		slices.SortStableFunc(texts, func(a, b string) int { return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) })
	}
	return texts, nil
}

// outbox returns the reader of the outbox.
func (w *world) outbox() outbox.Outbox { return outbox.Outbox{Wire: w.store.Wire()} }

func (w *world) endingsActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"bring": w.bring,
		"hold":  w.hold,
	}
}

// bring has an instance read outbox entries, and the database store them.
func (w *world) bring(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	texts, err := w.outbox().Entries(w.ctx, 0, 0, rapid.IntRange(1, 5).Draw(t, "endings"))
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) == 0 {
		t.SkipNow()
	}
	w.say("%s brings the first %d endings to the database", in.id, len(texts))
	w.brought = append(w.brought, brought{in, texts})
}

// hold has an instance confirm stored entries, perhaps again, and keep or end its lease.
func (w *world) hold(t *rapid.T) {
	b := pick(t, "brought", w.brought)
	if rapid.Bool().Draw(t, "for the last time") {
		w.brought = slices.DeleteFunc(w.brought, func(o brought) bool { return &o.texts[0] == &b.texts[0] })
	}
	lasts, f := rapid.Bool().Draw(t, "goes on"), drawFate(t)
	lease := outbox.Holder{Token: b.in.id, For: map[bool]time.Duration{false: 0, true: 50 * time.Second}[lasts]}
	w.say("%s says that the database has %d endings, goes on %v%s", lease.Token, len(b.texts), lasts, f)
	w.wire.lose(f)
	got, err := w.outbox().Hold(w.ctx, 0, lease, outbox.Confirmed{N: len(b.texts), Last: b.texts[len(b.texts)-1]})
	answered := w.sent(f, err)
	if f == requestLost {
		return
	}
	ours := !w.held.lasts || w.held.who == lease.Token
	before, err := w.plain.LLen(w.ctx, space.Ended(0)).Result()
	if err != nil {
		t.Fatal(err)
	}
	forgets := 0
	if gone := len(w.endings) - int(before); gone > 0 {
		forgets = gone
	}
	if forgets > 0 && (!ours || forgets != len(b.texts) || !w.begins(b.texts)) {
		t.Fatalf("%d endings were forgotten; %s says that the database has %d", forgets, lease.Token, len(b.texts))
	}
	if ours && w.begins(b.texts) && forgets == 0 {
		t.Fatalf("nothing was forgotten of %d endings that the database has", len(b.texts))
	}
	if answered && (got.Ours != ours || got.Removed != (forgets > 0)) {
		t.Fatalf("held by %+v: %+v, want ours %v", w.held, got, ours)
	}
	if ours {
		w.held = hold{lease.Token, lasts}
	}
	w.endings = slices.Clone(w.endings[forgets:])
	w.texts = slices.Clone(w.texts[min(forgets, len(w.texts)):])
}

// begins reports whether the outbox began with texts when it was last read.
func (w *world) begins(texts []string) bool {
	return len(w.texts) >= len(texts) && slices.Equal(w.texts[:len(texts)], texts)
}
