package engine

import (
	"testing"
	"time"

	"notifier/internal/holds"
	"notifier/internal/notice"
	"notifier/internal/redistest"
	"notifier/internal/store"
)

// paused pauses a host until it is resumed, and returns once this instance knows it.
func (w *world) paused(t *testing.T, host string) holds.Receiver {
	t.Helper()
	r := holds.Receiver{Host: host}
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
	w := start(t, redistest.Shared(t), g, nil, callbackRoute())
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
