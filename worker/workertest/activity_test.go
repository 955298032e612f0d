package workertest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The clock of these tests is that of a bubble, so that they wait exactly.
func TestStuckAdvanceIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan string, 1)
		a := &activity{most: stuckAfter, fail: func(text string) { said <- text }, stop: make(chan struct{})}
		go a.watch()
		time.Sleep(time.Hour) // no Advance
		synctest.Wait()
		if len(said) > 0 {
			t.Errorf("without an Advance: %s", <-said)
		}

		a.begin()
		for range 100 {
			a.moved()
			time.Sleep(stuckAfter / 2)
		}
		synctest.Wait()
		if len(said) > 0 {
			t.Errorf("during an Advance that makes steps: %s", <-said)
		}

		time.Sleep(2 * stuckAfter)
		synctest.Wait()
		if len(said) == 0 {
			t.Fatal("an Advance that is stuck is not reported")
		}
		if text := <-said; !strings.Contains(text, "no step for 10s") {
			t.Error(text)
		}
	})
}
