package engine

import (
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/redistest"
	"notifier/internal/store"
)

// TestCountsOfDeadLettersAreSharedAndForgotten checks that a count is not repeated at once, but is after a redrive by this instance.
func TestCountsOfDeadLettersAreSharedAndForgotten(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
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
