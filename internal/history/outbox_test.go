package history

import (
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func TestOutboxRemovesOnlyConfirmedEntries(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	q.add(t, 0, 4)
	hold := func(who string, keep time.Duration, done Confirmed) Held {
		t.Helper()
		h, err := q.Hold(t.Context(), 0, Holder{who, keep}, done)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	read, err := q.Entries(t.Context(), 0, 0, 3)
	if err != nil || len(read) != 3 {
		t.Fatalf("%d, %v", len(read), err)
	}
	if h := hold("a", time.Minute, Confirmed{}); !h.Ours || h.Left != 4 {
		t.Fatalf("%+v", h)
	}
	if h := hold("b", time.Minute, Confirmed{3, read[2]}); h.Ours || h.Removed || h.Left != 4 {
		t.Fatalf("another instance holds the outbox: %+v", h)
	}

	// A replica that had one entry less became the master, and more were appended.
	if err := q.c.LRem(t.Context(), q.space.Ended(0), 1, read[1]).Err(); err != nil {
		t.Fatal(err)
	}
	if h := hold("a", time.Minute, Confirmed{3, read[2]}); !h.Ours || h.Removed || h.Left != 3 {
		t.Fatalf("the confirmed entries are not the first ones: %+v", h)
	}
	if h := hold("a", 0, Confirmed{2, read[2]}); !h.Removed || h.Left != 1 {
		t.Fatalf("%+v", h)
	}
	if h := hold("b", time.Minute, Confirmed{2, read[2]}); !h.Ours || h.Removed || h.Left != 1 {
		t.Fatalf("a repeated confirmation: %+v", h)
	}

	if n, err := q.Shed(t.Context(), 0, 5); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if left, oldest, lost, err := q.Backlog(t.Context(), 0); err != nil || left != 0 || oldest != "" || lost != 1 {
		t.Fatalf("%d %q %d %v", left, oldest, lost, err)
	}
}

func TestOutboxHoldExpires(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	if h, err := q.Hold(t.Context(), 0, Holder{"a", 20 * time.Millisecond}, Confirmed{}); err != nil || !h.Ours {
		t.Fatalf("%+v, %v", h, err)
	}
	testkit.Until(t, "the hold has ended by the clock of Redis", func() bool {
		h, err := q.Hold(t.Context(), 0, Holder{"b", time.Minute}, Confirmed{})
		if err != nil {
			t.Fatal(err)
		}
		return h.Ours
	})

	// A hold that a clock an hour ahead has written keeps no relay waiting.
	if err := q.c.HSet(t.Context(), q.space.History(0), "until", time.Now().Add(time.Hour).UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	if h, err := q.Hold(t.Context(), 0, Holder{"a", time.Minute}, Confirmed{}); err != nil || !h.Ours {
		t.Fatalf("%+v, %v", h, err)
	}
}

// FuzzOutboxReplies: whatever Redis, or a proxy in front of it, replies, a call returns.
func FuzzOutboxReplies(f *testing.F) {
	f.Add([]byte{200, 4, 0, 1, 0, 0, 0, 2, 0, 0})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, a := testkit.Answers(t, b)
		o := Outbox{wire.New(wire.Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}})}
		_, _ = o.Hold(t.Context(), 0, Holder{"a", time.Second}, Confirmed{}) // an error is as good as a reply
		a.Rest = b
		_, _ = o.Shed(t.Context(), 0, 5)
	})
}
