//go:build chaos

package chaos

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	flagSequences    = flag.Int("chaos.sequences", 1000, "sequences of five notices, in each run of TestSequences")
	flagSequenceRate = flag.Int("chaos.sequencerate", 500, "notices a second in TestSequences")
)

// ofSequence is how many notices a sequence has.
const ofSequence = 5

// TestSequences delivers sequences on an ordered route while 20 % of the attempts fail and 1 % hang. No attempt
// may start while an earlier notice of its sequence is pending or another one is in flight.
func TestSequences(t *testing.T) {
	binary := build(t)
	for i, c := range []struct {
		name    string
		servers func(testing.TB, string, *clock) *servers
		// faults makes faults until ctx ends; nil = none.
		faults func(ctx context.Context, x *run)
	}{
		{"no fault", standalone, nil},
		{"an instance killed every 5 s", standalone, every(5*time.Second, "instance killed")},
		{"Redis killed every 20 s", standalone, every(20*time.Second, "redis killed")},
		{"a failover every 30 s", sentinel, every(30*time.Second, "master killed, Sentinel fails over")},
		{"reshard 1 to 6 to 4", standalone, reshards},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newRun(t, binary, "sequences", rand.New(rand.NewPCG(*flagSeed, uint64(i))))
			env := []string{"NOTIFIER_ROUTE_PAY_ORDER=id", "NOTIFIER_ROUTE_PAY_TIMEOUT=2s",
				"NOTIFIER_ROUTE_PAY_RETRY=" + strings.TrimSuffix(strings.Repeat("1s,", 20), ",")}
			if strings.Contains(c.name, "failover") {
				env = append(env, "NOTIFIER_DURABILITY_SETTLE=replicas:1")
			}
			from := time.Now()
			x.start(c.servers, unsteady, env...)
			ctx, stop := context.WithCancel(t.Context())
			var faults sync.WaitGroup
			if c.faults != nil {
				faults.Go(func() { c.faults(ctx, x) })
			}
			x.produceSequences(*flagSequences, *flagSequenceRate)
			stop()
			faults.Wait()
			x.over.Store(true)
			x.settle()
			x.verdict = x.ledger.judge()
			x.fail()
			x.judgeOrder(time.Since(from))
		})
	}
}

// judgeOrder fails the test for each unexplained overtake, and logs the counts of the run.
func (x *run) judgeOrder(took time.Duration) {
	t, v := x.t, x.verdict
	if want := *flagSequences * ofSequence; v.Promised != want {
		t.Errorf("%d notices were acknowledged, want %d", v.Promised, want)
	}
	explained := map[string]int{}
	for _, o := range x.ledger.overtakes() {
		if o.cause == nil {
			t.Errorf("an attempt started too soon: %s", o)
			continue
		}
		explained[o.cause.what]++
	}
	again := map[string]int{}
	for _, d := range v.Duplicates {
		if d.cause != nil {
			again[d.cause.what]++
		}
	}
	times := map[string]int{}
	for what, e := range v.Faults {
		times[what] = e.times
	}
	t.Logf("%d sequences, %d notices, %d attempts in %s; faults: %s; lost %d, early %d, duplicates %d (%s), unexplained %d, dead %d; "+
		"started too soon, explained: %s", *flagSequences, v.Promised, v.Arrivals, took.Round(time.Second), counts(times), len(v.Lost),
		len(v.Early), len(v.Duplicates), counts(again), len(v.Unexplained), v.Dead, counts(explained))
}

// unsteady answers an attempt: 20 % fail, and 1 % hang until the caller gives up.
func unsteady(key string, attempt int) (takes time.Duration, fails bool) {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, key, " ", attempt)
	dice := h.Sum32() / 7
	if dice%100 == 0 {
		return time.Hour, true
	}
	return time.Duration(dice/100%20) * time.Millisecond, dice%100 <= 20
}

// produceSequences schedules sequences. The calls for one follow each other, so that its order is known.
func (x *run) produceSequences(n, rate int) {
	tick := time.NewTicker(time.Second * ofSequence / time.Duration(rate))
	defer tick.Stop()
	var calls sync.WaitGroup
	busy := make(chan struct{}, 200)
	for i := range n {
		<-tick.C
		busy <- struct{}{}
		calls.Go(func() {
			defer func() { <-busy }()
			delay := time.Duration(i*7919%3000) * time.Millisecond
			if i%5 == 0 {
				delay = 0
			}
			for nth := range ofSequence {
				x.schedule(context.Background(), fmt.Sprintf("pay:%s:t%d:%d", x.servers.name, nth, i), delay, i+nth)
			}
		})
	}
	calls.Wait()
}

// every returns a function that makes a fault at each interval.
func every(interval time.Duration, what string) func(context.Context, *run) {
	return func(ctx context.Context, x *run) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				x.try(what)
			}
		}
	}
}

// reshards changes the number of shards twice. Until a notice in flight has moved, half a minute at most, notices
// in the new shards may overtake it.
func reshards(_ context.Context, x *run) {
	for _, to := range []int{6, 4} {
		x.pause(3000, 4000)
		x.make("reshard to "+strconv.Itoa(to), fault{of: "shards", overtakes: true, felt: 30 * time.Second, do: func(x *run, _ *span) bool {
			c := exec.Command(x.binary, "reshard", "--to", strconv.Itoa(to))
			c.Env = append(os.Environ(), x.servers.env...)
			if out, err := c.CombinedOutput(); err != nil {
				x.t.Errorf("reshard --to %d: %v: %s", to, err, out)
			}
			return true
		}})
	}
}
