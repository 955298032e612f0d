package engine

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// paused pauses a host until it is resumed, and returns once this instance knows it.
func (w *world) paused(t *testing.T, host string) receivers.Receiver {
	t.Helper()
	r := receivers.Receiver{Host: host}
	if err := w.PauseReceiver(t.Context(), "", r, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pause is known", func() bool {
		return w.holds.Table().Held("app1:trans:a:1", host+":443", "", time.Now()) != nil
	})
	return r
}

// A held notice whose url changes to a host that is not paused is delivered there. One whose url stays at the paused host, or
// changes to another paused host, is held again.
func TestHeldNoticeWithAnotherURLIsDelivered(t *testing.T) {
	t.Parallel()
	g := newGot(10)
	w := start(t, testkit.SharedRedis(t), g, nil, callbackRoute())
	old, other := w.paused(t, "old.example"), w.paused(t, "other.example")
	w.put(t, 3, func(i int) store.Request { return to(key(i), "old.example") })
	eventually(t, "all are held", func() bool { return w.heldNow(t, old) == 3 })
	for i, url := range []string{"https://new.example/x", "https://old.example/y", "https://other.example/z"} {
		if c, _, err := w.Readdress(t.Context(), key(i), notice.Address{URL: url}, nil); err != nil || !c.Done {
			t.Fatal(c, err)
		}
	}
	if n := g.await(t, key(0)); n.URL != "https://new.example/x" || n.AttemptsMade != 0 {
		t.Errorf("%+v", n)
	}
	eventually(t, "the others are held again", func() bool { return w.heldNow(t, old) == 1 && w.heldNow(t, other) == 1 })
	if n := g.times(key(1)) + g.times(key(2)); n != 0 {
		t.Errorf("%d attempts at paused hosts", n)
	}
}

// Held notices of a redirected host are delivered to the new host while the old one stays paused. If the new host is paused, too,
// they are held until it is resumed.
func TestRedirectedHeldNoticesAreDelivered(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("new host paused %t", paused), func(t *testing.T) {
			t.Parallel()
			const n = 50
			g := newGot(2 * n)
			w := start(t, testkit.SharedRedis(t), g, nil, callbackRoute())
			old := w.paused(t, "old.example")
			w.put(t, n, func(i int) store.Request { return to(key(i), "old.example") })
			eventually(t, "all are held", func() bool { return w.heldNow(t, old) == n })
			var other receivers.Receiver
			if paused {
				other = w.paused(t, "new.example")
			}

			r, err := w.MakeRedirect(t.Context(), jobs.Rule{From: "https://old.example", To: "https://new.example"}, "")
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the redirect is done", func() bool {
				r, err = w.ReadRedirect(t.Context(), r.ID)
				return err == nil && r.State == jobs.Done
			})
			if paused {
				eventually(t, "all are held for the new host", func() bool { return w.heldNow(t, other) == n })
				if _, err := w.ResumeReceiver(t.Context(), other, 0); err != nil {
					t.Fatal(err)
				}
			}
			for i := range n {
				if f := w.until(t, key(i), notice.Delivered); f.URL != "https://new.example/x" || f.AttemptsMade != 1 {
					t.Errorf("%+v", f.Notice)
				}
			}
			if k := w.heldNow(t, old); k != 0 || r.Redirected != n {
				t.Errorf("%d are held, %d were redirected", k, r.Redirected)
			}
		})
	}
}

// On an ordered route, a redirect delivers a held notice before its successors, to the new host.
func TestRedirectedHeldNoticeKeepsItsOrder(t *testing.T) {
	t.Parallel()
	const n = 10
	g := newGot(n)
	r := callbackRoute()
	r.Order = route.OrderSkip
	w := start(t, testkit.SharedRedis(t), g, nil, r)
	old := w.paused(t, "old.example")
	key := func(i int) string { return fmt.Sprintf("app1:trans:notice:S~%d", i+1) }
	w.put(t, n, func(i int) store.Request { return to(key(i), "old.example") })
	eventually(t, "the first is held", func() bool { return w.heldNow(t, old) == 1 })
	if _, err := w.MakeRedirect(t.Context(), jobs.Rule{From: "https://old.example", To: "https://new.example"}, ""); err != nil {
		t.Fatal(err)
	}
	var order []string
	for range n {
		order = append(order, testkit.Next(t, fmt.Sprintf("one more than %q is delivered", order), g.seen))
	}
	for i := range n {
		if f := w.until(t, key(i), notice.Delivered); f.URL != "https://new.example/x" || order[i] != key(i) {
			t.Errorf("%d: %s at %s, order %q", i, f.Key, f.URL, order)
		}
	}
}
