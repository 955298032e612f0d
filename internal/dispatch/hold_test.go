package dispatch

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// paused holds the notices whose keys it contains until a time.
type paused map[string]time.Time

func (p paused) Held(_ *route.Route, n *notice.Notice, _ time.Time) (string, time.Time, bool) {
	until, ok := p[n.Key]
	p[n.Key+" made "+strconv.Itoa(n.AttemptsMade)] = until
	return "host/a.example/", until, ok
}

// A notice of a paused receiver is settled without an attempt, and gives its slot to others. Its delay is that of the pause,
// also above a day.
func TestPausedReceiverGetsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		var got []string
		w := newWork(func(_ context.Context, n *notice.Notice) notice.Result {
			got = append(got, n.Key)
			return notice.DeliveredResult(200)
		})
		s.put("a", 0, 3)
		s.entries[1].lapses = 1
		lapsed, free := s.entries[1].n.Key, s.entries[2].n.Key
		holds := paused{}
		for _, e := range s.entries[:2] {
			holds[e.n.Key] = time.Now().Add(72 * time.Hour)
		}
		o := options(s, w, 1, testRoute("a", 1))
		o.Holds = holds
		d := begin(o)
		d.Sweep(keys.Partition{Prefix: "a"})
		synctest.Wait()
		time.Sleep(time.Second) // sleep: virtual
		if len(got) != 1 || got[0] != free || d.InFlight("a") != 0 {
			t.Errorf("attempts of %v, %d in flight", got, d.InFlight("a"))
		}
		held := 0
		for _, e := range s.ended {
			if e.Ending != store.EndPostponed {
				continue
			}
			held++
			if e.Pause != "host/a.example/" || e.Held != notice.HeldPaused || e.After < 71*time.Hour {
				t.Errorf("%+v", e)
			}
			// The interrupted attempt of an expired lease is counted.
			if counted := e.Claim.Key == lapsed; e.Claim.AttemptsMade != map[bool]int{true: 1}[counted] {
				t.Errorf("%s: %d attempts", e.Claim.Key, e.Claim.AttemptsMade)
			}
		}
		if _, ok := holds[lapsed+" made 1"]; !ok { // so that a probe that was interrupted is not made again
			t.Errorf("the pause is asked without the interrupted attempt: %v", holds)
		}
		if held != 2 || len(d.Waiting("a").By) > 0 {
			t.Errorf("%d are held, waiting %v", held, d.Waiting("a"))
		}
		drain(t, d)
	})
}
