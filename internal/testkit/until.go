package testkit

import (
	"errors"
	"testing"
	"time"
)

// Until returns once ok does. It fails the test after a minute.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Await(t, func() error {
		if ok() {
			return nil
		}
		return errors.New(what)
	})
}

// Await returns once ok returns nil. It fails the test with the last error after a minute.
func Await(t testing.TB, ok func() error) {
	t.Helper()
	end, tick := time.Now().Add(time.Minute), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}

		if time.Now().After(end) {
			t.Fatalf("not within a minute: %v", err)
		}

		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("the test ended before: %v", err)
		}
	}
}

// Within reports whether ok became true before a limit. It checks at least once.
func Within(limit time.Duration, ok func() bool) bool {
	end, tick := time.Now().Add(limit), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			return false
		}
		<-tick.C
	}

	return true
}

// Next returns the next element of a channel, or the zero value once it is closed. It fails the test after a minute.
func Next[T any](t testing.TB, what string, from <-chan T) (next T) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	select {
	case next = <-from:
	case <-limit.C:
		t.Fatalf("not within a minute: %s", what)
	case <-t.Context().Done():
		t.Fatalf("the test ended before: %s", what)
	}

	return next
}
