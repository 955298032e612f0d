package store

import (
	"fmt"
	"slices"
	"strings"
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
			score = now + at + 500.5/1024 // equal scores, more than a sweep reads
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
		for _, w := range c.Won {
			if w.Key == "app1:a:b:last" || w.Key == fmt.Sprint("app1:a:b:", at) {
				firsts = append(firsts, w.Key)
			}
		}
		from = c.Next
	}
	if want := []string{fmt.Sprint("app1:a:b:", at), "app1:a:b:last"}; !slices.Equal(firsts, want) {
		t.Errorf("found %v, want %v", firsts, want)
	}
}

// First attempts that are due in the same ms as thousands of retries are found by the next sweeps, even if most entries lie before them.
func TestSweepFindsFirstAttemptsInACrowd(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	now := float64(time.Now().Add(-time.Minute).UnixMilli())
	var crowd []redis.Z
	for i := range 5000 {
		crowd = append(crowd, redis.Z{Score: now + float64(i%10) + 0.5 + 0.5/256, Member: fmt.Sprintf("app1:a:b:retry%d", i)})
	}

	for i := range 9 {
		crowd = append(crowd, redis.Z{Score: now + float64(i), Member: fmt.Sprintf("app1:a:b:first%d", i)},
			redis.Z{Score: now + 9, Member: fmt.Sprintf("app1:a:b:same%d", i)})
	}

	srv.Client().ZAdd(t.Context(), s.space.Shadow(partition), crowd...)
	from, claimed, sweeps := "", 0, 0
	for ; claimed < 18 && sweeps < 20; sweeps++ {
		c, err := s.Sweep(t.Context(), partition, Lease{fmt.Sprint("t", sweeps), lease}, SweepOptions{Limit: 8, From: from})
		if err != nil || len(c.Won) != 8 || !c.More {
			t.Fatalf("%+v, %v", c, err)
		}

		for _, w := range c.Won {
			if !strings.HasPrefix(w.Key, "app1:a:b:retry") {
				claimed++
			}
		}
		from = c.Next
	}

	if claimed != 18 || sweeps > 6 {
		t.Errorf("%d of 18 first attempts were claimed in %d sweeps", claimed, sweeps)
	}
}

// First attempts with equal scores behind retries are claimed by the next sweeps, as many as a sweep may claim.
func TestSweepFindsFirstAttemptsWithEqualScores(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	now := float64(time.Now().Add(-time.Minute).UnixMilli())
	const firsts, limit = 100, 32
	var crowd []redis.Z
	for i := range 1000 {
		crowd = append(crowd, redis.Z{Score: now + float64(i%10) + 0.5 + 0.5/256, Member: fmt.Sprintf("app1:a:b:retry%d", i)})
	}

	for i := range firsts {
		crowd = append(crowd, redis.Z{Score: now + 5, Member: fmt.Sprintf("app1:a:b:first%d", i)})
	}

	srv.Client().ZAdd(t.Context(), s.space.Shadow(partition), crowd...)
	from, claimed, sweeps := "", 0, 0
	for ; claimed < firsts && sweeps < firsts; sweeps++ {
		c, err := s.Sweep(t.Context(), partition, Lease{fmt.Sprint("t", sweeps), lease}, SweepOptions{Limit: limit, From: from})
		if err != nil || len(c.Won) != limit || !c.More {
			t.Fatalf("%+v, %v", c, err)
		}

		for _, w := range c.Won {
			if strings.HasPrefix(w.Key, "app1:a:b:first") {
				claimed++
			}
		}
		from = c.Next
	}

	if claimed != firsts || sweeps > 5 {
		t.Errorf("%d of %d first attempts were claimed in %d sweeps", claimed, firsts, sweeps)
	}
}

// A sweep that begins with the newest notices looks for first attempts among the newest ones, and claims the oldest of them first. It
// does so if the last sweep has found retries, even if the newest notices are none.
func TestSweepOfTheNewestLooksForFirstAttempts(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	now := float64(time.Now().Add(-time.Minute).UnixMilli())
	add := func(i int, fraction float64) string {
		key := fmt.Sprintf("app1:a:b:%d", i)
		srv.Client().ZAdd(t.Context(), s.space.Shadow(partition), redis.Z{Score: now + float64(i) + fraction, Member: key})
		return key
	}
	firsts := []string{add(1, 0), add(299, 0), add(300, 0)} // the one at 1 is not among the newest 32
	for i := 2; i < 299; i++ {
		add(i, []float64{500.5 / 1024, 0.5 + 0.5/256}[i%2]) // with and without a timer
	}

	sweep := func(i int, o SweepOptions) (won []string, next string) {
		t.Helper()
		c, err := s.Sweep(t.Context(), partition, Lease{fmt.Sprint("t", i), lease}, o)
		if err != nil || !c.More {
			t.Fatalf("%+v, %v", c, err)
		}
		for i := range c.Won {
			won = append(won, c.Won[i].Key)
		}
		return won, c.Next
	}
	if won, next := sweep(1, SweepOptions{Limit: 1, Newest: true, From: "7"}); !slices.Equal(won, firsts[1:2]) || next != "7" {
		t.Errorf("claimed %v of %v; next %q", won, firsts, next)
	}
	if won, next := sweep(2, SweepOptions{Limit: 3, Newest: true}); !slices.Contains(won, firsts[2]) || len(won) != 3 || next != "0" {
		t.Errorf("claimed %v, with %s; next %q", won, firsts[2], next)
	}
	if won, next := sweep(3, SweepOptions{Limit: 1, From: "7"}); !slices.Equal(won, firsts[:1]) || next != "0" {
		t.Errorf("claimed %v; next %q, but no retry was seen", won, next)
	}
}

// A retry that is due among many has no timer, so that the events of all do not delay those of first attempts. It is claimed as any other,
// and rescheduling gives it a timer.
func TestRetryInACrowdHasNoTimer(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	begin, err := s.w.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	due := begin.Truncate(time.Millisecond).Add(2 * time.Minute)
	crowd := make([]redis.Z, 256)
	for i := range crowd {
		crowd[i] = redis.Z{Score: float64(due.UnixMilli()), Member: fmt.Sprintf("app1:a:b:crowd%d", i)}
	}

	srv.Client().ZAdd(t.Context(), s.space.Shadow(partition), crowd...)
	settle := func(key string, e Ending) (in bool) {
		t.Helper()
		s.put(t, Request{Key: key, Content: body("x")})
		now, err := s.w.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		c := s.take(t, key, "t")
		c.AttemptsMade = 1
		return s.end(t, Settlement{Ending: e, Claim: c, After: due.Sub(now)}).Due.Sub(due).Abs() <= 5*time.Millisecond
	}
	timed := func(key string) bool {
		t.Helper()
		f, err := s.Find(t.Context(), prefix, key)
		if err != nil || (srv.Client().Exists(t.Context(), key).Val() == 1) == f.Untimed() {
			t.Fatalf("%s: %+v, %v; the score and the timer differ", key, f, err)
		}
		return !f.Untimed()
	}

	key := ""
	for i := 0; key == ""; i++ { // until a settle takes less than 5 ms
		if k := fmt.Sprintf("app1:a:b:%d", i); settle(k, EndRetry) {
			key = k
		}
		if i > 1000 {
			t.Fatal("no settle was in time")
		}
	}
	if timed(key) {
		t.Errorf("%s has a timer", key)
	}

	settle("app1:a:b:deferred", EndDeferred)
	if !timed("app1:a:b:deferred") {
		t.Error("a deferred notice has none")
	}
	s.change(t, key, Reschedule, When{Delay: time.Hour})
	if !timed(key) {
		t.Error("it has no timer after rescheduling")
	}

	s.change(t, key, Fire, When{})
	if timed(key) {
		t.Error("it has a timer and is due")
	}
	if c := s.take(t, key, "again"); c.AttemptsMade != 1 {
		t.Errorf("%+v", c)
	}
}
