package engine

import (
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// TestCountsOfDeadLettersAreSharedAndForgotten checks that a count is not repeated at once, but is after a redrive by this instance.
func TestCountsOfDeadLettersAreSharedAndForgotten(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	w := start(t, srv, newSink(0), nil, testRoute("r0", "app1:m0"))
	count := func() store.DeadCount {
		t.Helper()
		got, err := w.DeadCauses(t.Context(), time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := count()
	if again := count(); !again.At.Equal(first.At) || len(first.Groups) != 0 {
		t.Errorf("counted twice at once: %v, %v", first, again)
	}

	q := store.Query{Routes: []string{"app1:m0"}, State: notice.Dead}
	if _, err := w.AmendAll(t.Context(), store.Bulk{Query: q, Op: store.Redrive}); err != nil {
		t.Fatal(err)
	}

	if after := count(); after.At.Equal(first.At) {
		t.Error("a redrive by this instance did not make it count again")
	}

	if all, err := w.DeadCauses(t.Context(), time.Time{}); err != nil || all.At.Equal(first.At) {
		t.Errorf("the count of another window is used: %v, %v", all, err)
	}
}

// Of two instances with a limit, the dead letters above it are removed once and counted.
func TestDeadLettersAboveLimitAreRemoved(t *testing.T) {
	t.Parallel()
	srv, l := testkit.SharedRedis(t), &hookLog{}
	limited := func() []*route.Route {
		list := hooked()
		list[0].DeadKeep = 3
		return list
	}
	a := start(t, srv, l, nil, limited()...)
	b := start(t, srv, l, nil, limited()...)
	const n = 10
	a.put(t, n, func(i int) store.Request { return store.Request{Key: key(i)} })
	l.await(t, n)
	dead := func() int64 {
		got, err := a.store.DeadCauses(t.Context(), []string{"app1"}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		sum, _ := got.Sum()
		return sum
	}
	eventually(t, "3 dead letters are left", func() bool {
		for _, w := range []*world{a, b} {
			if err := w.janitor.Tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return dead() == 3
	})
}
