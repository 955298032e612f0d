package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// In worlds of moves and of adoption there is a history: what ends is appended to a
// list, and instances bring that to a database, which keeps what it has for good.

// ending is the reference model of an entry of that list.
type ending struct {
	key     int
	under   string
	outcome notice.Ending
	body    string
	made    notice.Made
	used    int
}

// brought is what an instance has read and the database has taken.
type brought struct {
	in    *instance
	texts []string
}

// hold is who brings the endings.
type hold struct {
	who   string
	lasts bool
}

// ends writes into the model that key k's notice ends as it stands.
func (w *world) ends(k int, outcome notice.Ending) {
	n := &w.notes[k]
	w.endings = append(w.endings, ending{k, n.under, outcome, n.text(), n.made, n.used})
}

// replaced is what ends when another takes a notice's place: nothing if it had ended.
func (w *world) replaced(k int) {
	if n := &w.notes[k]; n.pending() || n.state == notice.Dead {
		w.ends(k, notice.EndReplaced)
	}
}

// compareEndings compares the list with the model. No ending of a notice has the
// number of another.
func (w *world) compareEndings() {
	if w.kind == onePrefix {
		return
	}
	texts, err := w.handedOver()
	if err != nil || len(texts) != len(w.endings) {
		w.t.Fatalf("%d endings wait for history, want %d; %v", len(texts), len(w.endings), err)
	}
	w.texts = texts
	numbers := map[string]bool{}
	for i, text := range texts {
		e, err := store.ReadEnded(text)
		if err != nil {
			w.t.Fatalf("%s: %v", text, err)
		}
		is, want := ending{int(e.Key[len(e.Key)-1] - '0'), e.Route, e.Outcome, string(e.Body), e.Made, e.AttemptsMade}, w.endings[i]
		if is != want {
			w.t.Fatalf("the ending %s is handed over, want %+v", text, want)
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

// handedOver is what waits for history, of all places, in the order in which it has
// ended.
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

func (w *world) endingsActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"bring": w.bring,
		"hold":  w.hold,
	}
}

// bring: an instance reads endings, and the database takes them.
func (w *world) bring(t *rapid.T) {
	in := pick(t, "instance", w.instances)
	texts, err := w.store.Endings(w.ctx, 0, 0, rapid.IntRange(1, 5).Draw(t, "endings"))
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) == 0 {
		t.SkipNow()
	}
	w.say("%s brings the first %d endings to the database", in.id, len(texts))
	w.brought = append(w.brought, brought{in, texts})
}

// hold: an instance says what the database has, once or again, and that it goes on.
func (w *world) hold(t *rapid.T) {
	b := pick(t, "brought", w.brought)
	if rapid.Bool().Draw(t, "for the last time") {
		w.brought = slices.DeleteFunc(w.brought, func(o brought) bool { return &o.texts[0] == &b.texts[0] })
	}
	lasts, f := rapid.Bool().Draw(t, "goes on"), drawFate(t)
	lease := store.Lease{Token: b.in.id, For: map[bool]time.Duration{false: 0, true: 50 * time.Second}[lasts]}
	w.say("%s says that the database has %d endings, goes on %v%s", lease.Token, len(b.texts), lasts, f)
	w.wire.lose(f)
	got, err := w.store.Hold(w.ctx, 0, lease, store.Confirmed{N: len(b.texts), Last: b.texts[len(b.texts)-1]})
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
	if answered && (got.Ours != ours || got.Forgotten != (forgets > 0)) {
		t.Fatalf("held by %+v: %+v, want ours %v", w.held, got, ours)
	}
	if ours {
		w.held = hold{lease.Token, lasts}
	}
	w.endings = slices.Clone(w.endings[forgets:])
	w.texts = slices.Clone(w.texts[min(forgets, len(w.texts)):])
}

// begins: the list began with these when it was looked at last.
func (w *world) begins(texts []string) bool {
	return len(w.texts) >= len(texts) && slices.Equal(w.texts[:len(texts)], texts)
}
