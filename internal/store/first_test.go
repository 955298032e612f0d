package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
)

// again settles a notice, so that it is due in a moment with a timer, and waits for that by the clock that decides.
func (s *Store) again(t *testing.T, key string, e Settlement) {
	t.Helper()
	e.Claim, e.After = s.take(t, key, "again"), 5*time.Millisecond
	if e.Ending == EndRetry {
		e.Claim.AttemptsMade = 1
	}
	due, now, err := s.end(t, e).Due, time.Time{}, error(nil)
	for err == nil && !now.After(due) {
		now, err = s.w.Now(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A sweep of keys claims first attempts before retries, postponed ones among them, whatever the order of the keys.
func TestFirstAttemptsAreClaimedFirst(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	var ks []string
	for i := range 9 {
		ks = append(ks, fmt.Sprintf("app1:a:b:%d", i))
		s.put(t, Request{Key: ks[i], Content: body("x")})
	}
	for i, e := range []Settlement{
		{Ending: EndRetry}, {Ending: EndRetry}, {Ending: EndRetry},
		{Ending: EndPostponed, Held: notice.HeldBusy},
	} {
		s.again(t, ks[i], e)
	}
	s.take(t, ks[8], "other")

	sweep := func(token string, keys []string, n int) (won []string, c Claimed) {
		t.Helper()
		c, err := s.Sweep(t.Context(), partition, Lease{token, lease}, SweepOptions{Keys: keys, Limit: n})
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Won {
			won = append(won, c.Won[i].Key)
		}
		return won, c
	}
	won, c := sweep("t1", append(slices.Clone(ks), "app1:a:b:gone"), 3)
	if !slices.Equal(won, ks[3:6]) || !slices.Equal(c.Left, ks[6:8]) || !c.More || c.Lost+c.Stale != 2 {
		t.Errorf("won %v, left %v, more %v, %d lost, %d stale", won, c.Left, c.More, c.Lost, c.Stale)
	}
	won, c = sweep("t2", ks[:8], 4)
	if want := append(slices.Clone(ks[6:8]), ks[:2]...); !slices.Equal(won, want) || len(c.Left) > 0 || !c.More {
		t.Errorf("won %v, want %v; left %v, more %v", won, want, c.Left, c.More)
	}
	won, c = sweep("t3", ks, 4)
	if !slices.Equal(won, ks[2:3]) || len(c.Left) > 0 || c.More {
		t.Errorf("won %v, left %v, more %v", won, c.Left, c.More)
	}
}

// A sweep with more notices than it may claim looks for first attempts, wherever they are among retries.
func TestSweepLooksForFirstAttempts(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	const many, at = 300, 200
	now := float64(time.Now().Add(-time.Minute).UnixMilli())
	for i := range many {
		score := now + float64(i) + 500.5/1024
		switch {
		case i == at:
			score = now + float64(i)
		case i > at:
			score = now + at + 500.5/1024 // a cursor of scores would stay here
		}
		srv.Client().ZAdd(t.Context(), s.space.Shadow(partition), redis.Z{Score: score, Member: fmt.Sprintf("app1:a:b:%d", i)})
	}
	srv.Client().ZAdd(t.Context(), s.space.Shadow(partition), redis.Z{Score: now + 9000, Member: "app1:a:b:last"})

	var firsts []string
	from := ""
	for i := range 2 * many / 64 {
		c, err := s.Sweep(t.Context(), partition, Lease{fmt.Sprint("t", i), lease}, SweepOptions{Limit: 2, From: from})
		if err != nil || len(c.Won) != 2 || !c.More {
			t.Fatalf("%+v, %v", c, err)
		}
		if k := c.Won[0].Key; k == "app1:a:b:last" || k == fmt.Sprint("app1:a:b:", at) {
			firsts = append(firsts, k)
		}
		from = c.Next
	}
	if want := []string{fmt.Sprint("app1:a:b:", at), "app1:a:b:last"}; !slices.Equal(firsts, want) {
		t.Errorf("found %v, want %v", firsts, want)
	}
}
