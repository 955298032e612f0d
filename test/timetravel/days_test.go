package timetravel

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/test/record"
)

var (
	flagSeed = flag.Uint64("timetravel.seed", 0, "run the journey of this seed, and no other")
	flagDays = flag.Float64("timetravel.days", ladderDays, "simulate at least so many ladder-days")
)

// TestLadderDays sends notices through their ladders on one to three instances, with faults.
// Connections are cut, refused and held, instances are killed, started and stopped, scripts
// are deleted, and Redis's clock jumps. When no notice is due soon, the test moves the clock to
// shortly before the next due time, so that a day takes milliseconds.
//
// The handler's attempts are compared with the attempts that the seed planned for each notice.
// No attempt is missing or early. Each is made once, unless a fault came between the attempt and
// its settle. Each notice has the planned outcome.
func TestLadderDays(t *testing.T) {
	seed := uint64(1)
	if seedOfClock {
		seed = uint64(time.Now().UnixNano()) % 1e12
	}
	if *flagSeed != 0 {
		seed, *flagDays = *flagSeed, 0
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("go test -tags fault -run LadderDays ./test/timetravel -timetravel.seed=%d (without -tags in make test)", seed)
		}
	})
	var sum tally
	first, from := seed, time.Now()
	for seed == first || sum.days < *flagDays {
		travel(t, func(t *testing.T, w *world) {
			j := &journey{world: w, seed: seed, dice: rand.New(rand.NewPCG(seed, 0)), ways: map[string]*way{}}
			j.run(t)
			sum.add(j.check(t))
			j.ended(t)
		})
		seed++
	}
	if os.Getenv("RECORD") != "" && !t.Failed() {
		page := filepath.Join("..", "..", record.Page)
		if err := record.Write(page, "timetravel", sum.table(first, seed-1, time.Since(from))); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%.0f ladder-days in %s, seeds up to %d: %d notices, %d attempts, %d faults; lost 0, early 0, made again after a fault %d; "+
		"late without a fault at most %s", sum.days, time.Since(from).Round(time.Millisecond), seed-1, sum.notices, sum.attempts, sum.faults,
		sum.again, sum.late)
}

type tally struct {
	days                             float64
	notices, attempts, faults, again int
	late                             time.Duration
	latest                           string // which attempt that was
}

func (s *tally) add(o tally) {
	s.days += o.days
	s.notices, s.attempts, s.faults, s.again = s.notices+o.notices, s.attempts+o.attempts, s.faults+o.faults, s.again+o.again
	if o.late > s.late {
		s.late, s.latest = o.late, o.latest
	}
}

// table is the record of a run.
func (s *tally) table(first, last uint64, took time.Duration) string {
	return fmt.Sprintf("| | |\n|---|---|\n| ladder-days | %.0f |\n| seeds | %d to %d |\n| notices | %d |\n| attempts | %d |\n| "+
		"faults | %d |\n"+
		"| lost | 0 |\n| early | 0 |\n| made again after a fault | %d |\n| made again without one | 0 |\n"+
		"| latest attempt of journeys without a fault | %s after its due time |\n| took | %s |\n| with | %s, %s/%s |\n", s.days, first, last,
		s.notices, s.attempts,
		s.faults, s.again, s.late, took.Round(time.Second), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// way is the plan of a notice: the number of attempts that fail.
type way struct {
	fails int
	takes time.Duration
	delay time.Duration
	made  time.Time // by Redis's clock
	// delivered: one of its attempts was seen that did not fail.
	delivered bool
}

func (y *way) attempts() int { return min(y.fails, len(standard)) + 1 }

// span is a time by the bubble's clock in which something was not as it should be.
type span struct {
	what     string
	from, to time.Time
}

type journey struct {
	*world
	seed uint64
	dice *rand.Rand
	ways map[string]*way

	mu     sync.Mutex
	faults []span
	aside  sync.WaitGroup
}

func (j *journey) run(t *testing.T) {
	t.Helper()
	j.retention = 30 * 24 * time.Hour
	j.answer = func(key string, n int) (time.Duration, notice.Result) {
		y := j.ways[key] // which does not change any more
		if n <= y.fails {
			return y.takes, notice.RetryResult(notice.ReasonStatus5xx, "no")
		}
		return y.takes, notice.DeliveredResult(200)
	}
	// So many are due in one millisecond.
	group := groups[j.dice.IntN(len(groups))]
	var takes, delay time.Duration
	for k := range perJourney {
		if k%group == 0 {
			takes = time.Duration(j.dice.IntN(200)) * time.Millisecond
			if j.dice.IntN(10) == 0 {
				takes = time.Duration(j.dice.IntN(9000)) * time.Millisecond
			}
			delay = time.Duration(j.dice.IntN(30_000)) * time.Millisecond
		}
		fails := 9 + j.dice.IntN(2) // through the whole ladder: the last attempt succeeds, or none does
		if j.dice.IntN(5) == 0 {
			fails = j.dice.IntN(9)
		}
		j.ways[key(k)] = &way{fails: fails, takes: takes, delay: delay}
	}
	for range 1 + j.dice.IntN(3) {
		j.start(t)
	}
	for k := range perJourney {
		y := j.ways[key(k)]
		r, err := j.running[k%len(j.running)].Schedule(t.Context(), store.Request{Key: key(k), Delay: y.delay})
		if err != nil {
			t.Fatal(err)
		}
		y.made = r.Due
	}
	quiet := j.dice.IntN(4) == 0 // a journey without faults shows how late things are
	for waits := 0; ; waits++ {
		next, ok := j.next(t)
		if !ok {
			break
		}
		if waits == 50_000 {
			t.Fatal("it does not end")
		}
		if left := next.Sub(j.now()); left > 30*time.Second {
			j.leap(left - time.Duration(5+j.dice.IntN(10))*time.Second)
		}
		if !quiet && j.dice.IntN(3) == 0 {
			j.fault(t)
		}
		time.Sleep(time.Duration(1+j.dice.IntN(5000)) * time.Millisecond)
	}
	j.aside.Wait()
	j.stop(t)
}

// next is when something falls due next; false when all has ended.
func (j *journey) next(t *testing.T) (time.Time, bool) {
	t.Helper()
	list, err := j.redis.ZRangeWithScores(t.Context(), space.Shadow(partition), 0, 0).Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(list[0].Score)), true
}

// fault lets something go wrong, and notes when.
func (j *journey) fault(t *testing.T) {
	t.Helper()
	i := j.running[j.dice.IntN(len(j.running))]
	long := time.Duration(1+j.dice.IntN(15_000)) * time.Millisecond
	switch j.dice.IntN(7) {
	case 0:
		j.during("cut", func() { i.wire.cut() })
	case 1:
		j.during("refused", func() { i.wire.away(long) })
	case 2:
		j.during("held", func() { i.wire.hold(long) })
	case 3:
		j.during("scripts forgotten", func() { j.redis.ScriptFlush(t.Context()) })
	case 4:
		j.during("leap forward", func() { j.leap(long) })
	case 5:
		j.during("leap back", func() { j.leap(-long) })
	case 6:
		if j.made > 8 {
			return
		}
		j.start(t)
		kill := j.dice.IntN(2) == 0
		for k, r := range j.running {
			if r == i {
				j.running = append(j.running[:k], j.running[k+1:]...)
				break
			}
		}
		j.aside.Go(func() {
			if kill {
				// Whether it is known to be gone, takes as long as the longest lease.
				j.during("killed", func() { i.kill(); time.Sleep(20 * time.Second) })
			} else {
				j.during("stopped", func() { i.stop(t) })
			}
		})
	}
}

func (j *journey) during(what string, f func()) {
	s := span{what: what, from: time.Now()}
	f()
	s.to = time.Now()
	j.mu.Lock()
	j.faults = append(j.faults, s)
	j.mu.Unlock()
}

// disturbed names a fault between two instants; an attempt may be made again for
// as long after a fault as a lease can last.
func (j *journey) disturbed(from, to time.Time) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.faults {
		if s.what != "stopped" && s.from.Before(to) && from.Before(s.to.Add(time.Millisecond)) {
			return s.what
		}
	}
	return ""
}

// check compares the attempts of each notice with the plan.
func (j *journey) check(t *testing.T) tally {
	t.Helper()
	sum := tally{notices: len(j.ways), faults: len(j.faults)}
	for key, y := range j.ways {
		list := j.attempts(key)
		sum.attempts += len(list)
		slices.SortFunc(list, func(a, b attempt) int { return a.begunAlone.Compare(b.begunAlone) })
		delivered := false
		for i, a := range list {
			if a.began.Before(a.due) && !j.wasDue(a) {
				t.Errorf("%s: attempt %d began %s early", key, a.n, a.due.Sub(a.began))
			}
			if late := a.began.Sub(a.due); len(j.faults) == 0 && late > sum.late {
				sum.late, sum.latest = late, fmt.Sprintf("%s attempt %d of %d made by %s", key, a.n, y.attempts(), a.instance)
			}
			if i == 0 && a.n == 1 || i > 0 && j.follows(a, list[i-1], y) {
				delivered = delivered || a.n > y.fails
				continue
			}
			sum.again++
			from := a.begunAlone.Add(-time.Minute)
			if i > 0 {
				from = list[i-1].begunAlone
			}
			if j.disturbed(from, a.begunAlone) == "" {
				t.Errorf("%s: attempt %d is none that was to come, and there was no fault before it: %+v", key, a.n, list[:i+1])
			}
			delivered = delivered || a.n > y.fails
		}
		if len(list) == 0 {
			t.Errorf("%s was never handled", key)
			continue
		}
		last := list[len(list)-1]
		if last.n < y.attempts() {
			t.Errorf("%s: %d attempts, want %d", key, last.n, y.attempts())
		}
		sum.days += last.began.Sub(y.made).Hours() / 24
		y.delivered = delivered
	}
	if sum.late > 100*time.Millisecond {
		t.Errorf("%s late without a fault: %s, with %d instances", sum.late, sum.latest, j.made)
	}
	return sum
}

// wasDue reports whether an attempt had been due before Redis's clock went back, so
// shortly before the attempt that its claim was won until then.
func (j *journey) wasDue(a attempt) bool {
	for _, p := range j.peaks {
		if !p.at.After(a.begunAlone) && a.begunAlone.Sub(p.at) < 30*time.Second && !p.clock.Before(a.due) {
			return true
		}
	}
	return false
}

// follows reports whether an attempt is the one that was to come after another.
func (j *journey) follows(a, before attempt, y *way) bool {
	return a.n == before.n+1 && before.n <= y.fails && before.n <= len(standard) && a.due.Sub(before.began) >= standard[before.n-1]
}

// ended compares the state in Redis with the planned outcome of each notice. An interrupted attempt
// counts, and up to three are made in addition to the ladder.
func (j *journey) ended(t *testing.T) {
	t.Helper()
	records, err := j.redis.HGetAll(t.Context(), space.Records(partition)).Result()
	if err != nil {
		t.Fatal(err)
	}
	for key, y := range j.ways {
		n, err := notice.Decode(key, "r", records[key])
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if n.AttemptsMade < y.attempts() || n.AttemptsMade > y.attempts() && len(j.faults) == 0 {
			t.Errorf("%s: %d attempts are in its record, want %d", key, n.AttemptsMade, y.attempts())
		}
		if _, err := j.redis.ZScore(t.Context(), space.Dead(partition), key).Result(); (err == nil) == y.delivered {
			t.Errorf("%s: is among the dead letters: %t, was delivered: %t; %+v", key, err == nil, y.delivered, n)
		}
	}
}
