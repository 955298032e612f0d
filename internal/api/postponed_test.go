package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"notifier/internal/notice"
)

// A postponed notice shows the due time that was promised, and when it is attempted next; a new
// promise, here by a reschedule, is both.
func TestPostponedNoticeShowsItsPromiseAndItsNextAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const key = "app1:orders:paid:postponed"
	b.do("POST", "/v1/notices", `{"key":"`+key+`","url":"https://shop.example/hook"}`).is(201)
	promised := b.engine.End(key, notice.DeferredResult(notice.ReasonBusy, time.Hour, ""))
	times := func() (due, next time.Time) {
		var v struct {
			Due  time.Time `json:"due"`
			Next time.Time `json:"next_attempt_at"`
		}
		a := b.do("GET", "/v1/notices/"+key, "").is(200)
		if err := json.Unmarshal([]byte(a.raw), &v); err != nil {
			t.Fatal(err)
		}
		return v.Due, v.Next
	}
	if due, next := times(); !due.Equal(promised) || next.Sub(due) < time.Hour || next.Sub(due) > 2*time.Hour {
		t.Errorf("due %s, next %s; want it due at %s, and the next attempt an hour later", due, next, promised)
	}
	b.do("PATCH", "/v1/notices/"+key, `{"delay":"2h"}`).is(200)
	if due, next := times(); !due.Equal(next) || due.Sub(promised) < 2*time.Hour {
		t.Errorf("after a reschedule: due %s, next %s", due, next)
	}
	b.engine.Move(key, notice.Delivered, "")
	if _, next := times(); !next.IsZero() {
		t.Errorf("delivered, and the next attempt comes at %s", next)
	}
}
