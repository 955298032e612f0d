package engine

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/testkit"
)

// stateOf returns the state of a definition.
func (w *world) stateOf(t *testing.T, key string) recur.State {
	t.Helper()
	x, err := w.Recurrences().Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return x.State
}

// calling defines a recurring notice with a tick each second, which calls a host. Ticks are skipped while a notice of it is pending.
func (w *world) calling(t *testing.T, host, body string) recur.Definition {
	t.Helper()
	d := every("app1:a:b:n", time.Second)
	d.Overlap, d.Content = recur.OverlapSkip, notice.Content{URL: "https://" + host + "/x", Body: []byte(body)}
	w.define(t, d)
	return d
}

// skips waits until another tick was skipped.
func (w *world) skips(t *testing.T, key string) {
	t.Helper()
	was := w.stateOf(t, key).Overlapped
	eventually(t, "a tick to overlap", func() bool { return w.stateOf(t, key).Overlapped > was })
}

// While an occurrence is held, further ticks overlap. A PUT replaces the held occurrence, also with another rule, and the list of held
// notices has the new one only. The resume delivers that one, and the ticks go on.
func TestHeldOccurrenceIsReplaced(t *testing.T) {
	t.Parallel()
	for name, interval := range map[string]time.Duration{"same rule": time.Second, "another rule": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGot(100)
			w := start(t, testkit.SharedRedis(t), g, nil, callbackRoute())
			down := w.paused(t, "down.example")
			d := w.calling(t, "down.example", `"old"`)
			eventually(t, "the first one is held", func() bool { return w.heldNow(t, down) == 1 })
			w.skips(t, d.Key)

			d.Spec.Every, d.Content.Body = interval, []byte(`"new"`)
			w.define(t, d)
			if f := w.until(t, d.Key+"~1", notice.Cancelled); f.AttemptsMade != 0 {
				t.Errorf("%+v", f.Notice)
			}
			eventually(t, "its successor is held", func() bool { return w.state(d.Key+"~2") == notice.Scheduled && w.heldNow(t, down) == 1 })
			w.skips(t, d.Key)
			if x := w.stateOf(t, d.Key); x.Number != 2 || x.Stored != 1 || g.times(d.Key+"~2") != 0 {
				t.Errorf("%+v, %d calls", x, g.times(d.Key+"~2"))
			}

			if _, err := w.ResumeReceiver(t.Context(), down, 0); err != nil {
				t.Fatal(err)
			}
			for number := 2; number <= 3; number++ {
				if n := g.await(t, fmt.Sprintf("%s~%d", d.Key, number)); string(n.Body) != `"new"` {
					t.Errorf("%s has the body %s", n.Key, n.Body)
				}
			}
			if n := g.times(d.Key + "~1"); n != 0 {
				t.Errorf("%d calls of the replaced occurrence", n)
			}
		})
	}
}

// A migration moves a held occurrence. Ticks overlap on the new side, too, until the receiver is resumed there.
func TestMigrateKeepsHeldOccurrence(t *testing.T) {
	t.Parallel()
	from, to, g := testkit.StartRedis(t), testkit.StartRedis(t), newGot(100)
	a, b := start(t, from, g, nil, callbackRoute()), start(t, to, g, nil, callbackRoute())
	down := a.paused(t, "down.example")
	d := a.calling(t, "down.example", `"x"`)
	eventually(t, "the first one is held", func() bool { return a.heldNow(t, down) == 1 })
	done, err := move.Migrate(t.Context(), move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"},
		Namespace: from.Namespace(), MaxSkew: 50 * time.Millisecond, Wait: 20 * time.Second})
	if err != nil || !done.Open || done.MissingN > 0 {
		t.Fatalf("%+v, %v", done, err)
	}

	b.skips(t, d.Key)
	if x := b.stateOf(t, d.Key); x.Number != 1 || x.Stored != 1 || b.heldNow(t, down) != 1 || len(g.seen) != 0 {
		t.Errorf("%+v, %d held, %d calls", x, b.heldNow(t, down), len(g.seen))
	}
	if _, err := b.ResumeReceiver(t.Context(), down, 0); err != nil {
		t.Fatal(err)
	}
	g.await(t, d.Key+"~1")
	g.await(t, d.Key+"~2")
	if n := g.times(d.Key + "~1"); n != 1 {
		t.Errorf("%d calls of the held occurrence", n)
	}
}
