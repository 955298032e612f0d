package callback

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"notifier/internal/notice"
	"notifier/internal/route"
)

func testLimits(slots int, rate float64) *limits { return limitsOf(slots, rate, peers{Fleet: alone{}}) }

func limitsOf(slots int, rate float64, f peers) *limits {
	r := &route.Route{Name: "orders", Prefix: "app1", HostConcurrency: slots, Rate: rate}
	return newLimits(r, max(0, int(rate)), f, time.Now, func(string, gobreaker.State, gobreaker.State, bool) {})
}

var (
	good    = notice.DeliveredResult(200)
	timeout = notice.RetryResult(notice.ReasonTimeout, "")
	refused = notice.RetryResult(notice.ReasonConnect, "")
)

func status(code int) notice.Result {
	return notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonStatus4xx, Status: code}
}

// must enters, or ends the test.
func must(t *testing.T, l *limits, host string) *pass {
	t.Helper()
	p, res := l.enter(host, notice.ClassFirst)
	if res != nil {
		t.Fatalf("refused: %+v", *res)
	}
	return p
}

func refusal(t *testing.T, l *limits, host string, why notice.Reason) notice.Result {
	t.Helper()
	p, res := l.enter(host, notice.ClassFirst)
	if res == nil {
		p.end(good, false)
		t.Fatal("let in")
	}
	expect(t, res.Result, notice.OutcomeDeferred, why)
	if res.After < minAfter || res.After > maxAfter {
		t.Errorf("put off for %s", res.After)
	}
	return res.Result
}

func TestSlotsPerDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(3, 0)
		var ps []*pass
		for range 3 {
			ps = append(ps, must(t, l, "a:443"))
		}
		refusal(t, l, "a:443", notice.ReasonBusy)
		must(t, l, "b:443").end(good, false)
		ps[0].end(good, false)
		must(t, l, "a:443").end(good, false)
		none := testLimits(0, 0)
		for range 1000 {
			must(t, none, "a:443")
		}
	})
}

func TestBreakerOpensOnSlowFailuresOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(16, 0)
		for range 100 { // quick failures do not open the breaker
			must(t, l, "a:80").end(refused, false)
			must(t, l, "a:80").end(status(500), false)
		}
		fail := func(slow time.Duration, res notice.Result, timedOut bool) {
			p := must(t, l, "a:80")
			time.Sleep(slow)
			p.end(res, timedOut)
		}
		for range 9 {
			fail(10*time.Second, timeout, true)
		}
		fail(0, good, false) // nine in a row, then an answer
		for range 5 {
			fail(2*time.Second, status(500), false)
		}
		for range 4 {
			fail(10*time.Second, timeout, true)
		}
		must(t, l, "a:80").end(notice.DeferredResult(notice.ReasonShutdown, 0, ""), false) // does not count
		fail(time.Millisecond, timeout, true)
		res := refusal(t, l, "a:80", notice.ReasonBreaker)
		if res.After < breakerOpen {
			t.Errorf("due again after %s, before the next try", res.After)
		}
		must(t, l, "b:80").end(good, false)
		time.Sleep(breakerOpen + time.Millisecond)
		probe := must(t, l, "a:80")
		refusal(t, l, "a:80", notice.ReasonBreaker) // one try at a time
		for _, wait := range []time.Duration{2 * breakerOpen, 4 * breakerOpen, breakerMost, breakerMost} {
			time.Sleep(10 * time.Second)
			probe.end(timeout, true)
			time.Sleep(wait - time.Millisecond)
			refusal(t, l, "a:80", notice.ReasonBreaker)
			time.Sleep(2 * time.Millisecond)
			probe = must(t, l, "a:80")
		}
		probe.end(status(404), false) // an answer closes the breaker
		for range 16 {
			must(t, l, "a:80")
		}
	})
}

// A call that ended long after its deadline, because this process did not run, changes neither the receiver's
// breaker nor its latency.
func TestInterruptedCallsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(64, 0)
		p := must(t, l, "a:80")
		time.Sleep(20 * time.Millisecond)
		p.end(good, false)
		var cut []*pass
		for range 2 * breakerFailures {
			cut = append(cut, must(t, l, "a:80"))
		}
		time.Sleep(13 * time.Second)
		for _, p := range cut {
			p.end(notice.RetryResult(notice.ReasonInterrupted, ""), false)
		}
		h := l.hosts.byName["a:80"]
		if h.breaker.State() != gobreaker.StateClosed || h.health != answers || h.latency != 20*time.Millisecond {
			t.Errorf("breaker %s, standing %d, latency %s", h.breaker.State(), h.health, h.latency)
		}
	})
}

func TestUnansweredProbeKeepsItsPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(16, 0)
		for range breakerFailures {
			must(t, l, "a:80").end(timeout, true)
		}
		time.Sleep(breakerOpen + time.Millisecond)
		// A probe that a shutdown or the guard ended says nothing about the host, and must not use up the
		// permission to probe.
		must(t, l, "a:80").end(notice.RetryResult(notice.ReasonBlocked, ""), false)
		must(t, l, "a:80").end(good, false)
		must(t, l, "a:80").end(good, false)
	})
}

func TestHostSlowsDownAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(16, 0)
		slots := func() int { return l.hosts.byName["a:80"].limit(l.max) }
		round := func(res notice.Result) {
			var ps []*pass
			for range slots() {
				ps = append(ps, must(t, l, "a:80"))
			}
			refusal(t, l, "a:80", notice.ReasonBusy)
			time.Sleep(100 * time.Millisecond)
			for _, p := range ps {
				p.end(res, false)
			}
		}
		must(t, l, "a:80").end(good, false)
		if slots() != 16 {
			t.Fatalf("%d slots at first", slots())
		}
		var got []int
		for range 5 {
			round(status(429))
			got = append(got, slots())
		}
		if want := []int{7, 3, 1, 1, 1}; !slices.Equal(got, want) {
			t.Errorf("slots after rounds of 429: %v, want %v", got, want)
		}
		rounds := 0
		for l.hosts.byName["a:80"].allowed > 0 && rounds < 100 {
			round(good)
			rounds++
		}
		if rounds < 10 || rounds > 40 {
			t.Errorf("recovered after %d good rounds; one slot a round was wanted", rounds)
		}
		must(t, l, "a:80").end(status(503), false)
		if slots() != 15 {
			t.Errorf("%d slots after one 503 among good answers", slots())
		}
		round(status(503))
		if slots() != 7 {
			t.Errorf("%d slots after a round of 503", slots())
		}
		must(t, l, "b:80").end(good, false)
		if n := l.hosts.byName["b:80"].limit(l.max); n != 16 {
			t.Errorf("the other host has %d slots", n)
		}
		none := testLimits(0, 0) // without a limit: half of the calls in flight
		var ps []*pass
		for range 40 {
			ps = append(ps, must(t, none, "c:80"))
		}
		time.Sleep(100 * time.Millisecond)
		ps[0].end(status(429), false)
		if n := none.hosts.byName["c:80"].limit(0); n != 0 {
			t.Errorf("%d slots after one 429, which were unlimited", n)
		}
		for _, p := range ps[1:] {
			p.end(status(429), false)
		}
		if n := none.hosts.byName["c:80"].limit(0); n < 18 || n > 22 {
			t.Errorf("%d slots of 40", n)
		}
	})
}

// Calls start at even distances. Few wait here for their turn, and deferred notices return one after another.
func TestRateSpacesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(0, 100)
		for i := range 26 { // the number that starts within the shortest delay of a deferral
			p := must(t, l, "a:80")
			if want := time.Duration(i) * 10 * time.Millisecond; p.wait != want {
				t.Fatalf("the %dth waits %s, want %s", i+1, p.wait, want)
			}
			p.end(good, false)
		}
		var last time.Duration
		for i := range 500 {
			res := refusal(t, l, fmt.Sprint("host", i), notice.ReasonRate)
			if want := minAfter + time.Duration(i+1)*10*time.Millisecond; res.After != want {
				t.Fatalf("the %dth is due again after %s, want %s", i+1, res.After, want)
			}
			last = res.After
		}
		time.Sleep(last)
		if p := must(t, l, "a:80"); p.wait != 0 {
			t.Errorf("waits %s with no call before it", p.wait)
		}
		for range 100000 {
			l.enter("a:80", notice.ClassFirst)
		}
		for range 1000 {
			if _, res := l.enter("a:80", notice.ClassFirst); res.After < maxTurn/2 || res.After > maxTurn {
				t.Fatalf("beyond the line, put off for %s", res.After)
			}
		}
		slow := testLimits(0, 0.01) // one per 100 s
		must(t, slow, "a:80").end(good, false)
		if _, res := slow.enter("a:80", notice.ClassFirst); res.After != 100*time.Second {
			t.Errorf("put off for %s", res.After)
		}
	})
}

func TestIdleHostsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(1, 0)
		held := must(t, l, "held:80")
		for i := range 10000 {
			must(t, l, fmt.Sprintf("h%d:80", i)).end(good, false)
		}
		time.Sleep(2 * hostIdle)
		must(t, l, "x:80").end(good, false)
		if n := len(l.hosts.byName); n != 2 {
			t.Errorf("%d hosts are kept", n)
		}
		held.end(good, false)
	})
}

// However many hosts hang, a host that answers finds a slot, and so does an unknown one.
func TestHangingHostsGetHalfOfTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(16, 0)
		l.doubtful = 8
		must(t, l, "good:80").end(good, false)
		var first []*pass
		for i := range 8 {
			first = append(first, must(t, l, fmt.Sprintf("hangs%d:80", i)))
		}
		refusal(t, l, "new:80", notice.ReasonBusy)
		for range 16 {
			defer must(t, l, "good:80").end(good, false)
		}
		time.Sleep(10 * time.Second)
		for _, p := range first {
			p.end(timeout, true)
		}
		refusedAt := 0 // hosts that hang now get half of the doubtful half
		for refusedAt = range 8 {
			if _, res := l.enter(fmt.Sprintf("hangs%d:80", refusedAt), notice.ClassFirst); res != nil {
				break
			}
		}
		if refusedAt != 4 {
			t.Errorf("%d calls to hosts that hang were let in, want 4", refusedAt)
		}
		must(t, l, "new:80").end(good, false)
		// A host that has answered, but whose calls have not ended for a while, is doubtful too.
		must(t, l, "stalls:80").end(good, false)
		for range 5 {
			must(t, l, "stalls:80")
		}
		time.Sleep(2 * time.Second)
		for range 4 {
			must(t, l, "stalls:80")
		}
		refusal(t, l, "stalls:80", notice.ReasonBusy)
	})
}

// queue orders notices by when they are due, or due again.
type queue []*visitor

type visitor struct {
	due, back time.Time
	host      string
}

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].back.Before(q[j].back) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*visitor)) }
func (q *queue) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

// hangingMerchants simulates two minutes of one route with 64 slots. 100 notices per second go to good
// merchants that answer in 20 ms. After half a minute, with merchants > 0, the given number of notices
// becomes due at once for that many merchants, which hang for their 10 s. It returns how long the good
// notices waited for a slot, sorted, and the refusals of each second.
func hangingMerchants(t *testing.T, merchants, notices int) (waits []time.Duration, churn map[int]int) {
	t.Helper()
	churn = map[int]int{}
	const slots, seconds, answer, hang = 64, 120, 20 * time.Millisecond, 10 * time.Second
	l := testLimits(16, 0)
	l.doubtful = slots / 2
	start := time.Now()
	var q queue
	for i := range notices {
		at := start.Add(30 * time.Second)
		q = append(q, &visitor{at, at, fmt.Sprintf("hangs%d:443", i%merchants)})
	}
	for i := range 100 * seconds {
		at := start.Add(time.Duration(i) * 10 * time.Millisecond)
		q = append(q, &visitor{at, at, fmt.Sprintf("good%d:443", i%50)})
	}
	heap.Init(&q)
	type running struct {
		p   *pass
		end time.Time
		v   *visitor
	}
	var run []running
	hangs := func(v *visitor) bool { return strings.HasPrefix(v.host, "hangs") }
	for time.Since(start) < seconds*time.Second {
		now := time.Now()
		run = slices.DeleteFunc(run, func(r running) bool {
			if r.end.After(now) {
				return false
			}
			if hangs(r.v) {
				r.p.end(timeout, true)
			} else {
				r.p.end(good, false)
			}
			return true
		})
		for q.Len() > 0 && !q[0].back.After(now) && len(run) < slots {
			v := heap.Pop(&q).(*visitor)
			p, res := l.enter(v.host, notice.ClassFirst)
			if res != nil {
				churn[int(now.Sub(start)/time.Second)]++
				v.back = now.Add(res.After)
				heap.Push(&q, v)
				continue
			}
			took := answer
			if hangs(v) {
				took = hang
			} else {
				waits = append(waits, now.Sub(v.due))
			}
			run = append(run, running{p, now.Add(took), v})
		}
		time.Sleep(time.Millisecond)
	}
	slices.Sort(waits)
	return waits, churn
}

// 100,000 notices of one merchant, or fewer notices of a hundred merchants, that hang for their full timeout
// do not delay the others of their route, and are not deferred over and over.
func TestHangingMerchantsDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p99 := func(d []time.Duration) time.Duration { return d[len(d)*99/100] }
		without, _ := hangingMerchants(t, 0, 0)
		for _, merchants := range []int{1, 4, 100} {
			with, churn := hangingMerchants(t, merchants, 100_000/min(merchants, 10))
			if len(with) != len(without) || p99(with) > max(2*p99(without), 2*time.Millisecond) {
				t.Errorf("%d hanging: %d good notices waited %s (p99), %d waited %s without", merchants, len(with), p99(with), len(without),
					p99(without))
			}
			t.Logf("%d hanging: p99 wait of %d good notices %s, without %s; most %s", merchants, len(with), p99(with), p99(without),
				with[len(with)-1])
			for s := 45; s < 120; s++ { // after the hosts are known to be slow
				if churn[s] > 3*maxReturns {
					t.Errorf("%d hanging: %d refusals in second %d", merchants, churn[s], s)
				}
			}
		}
	})
}

// A call after which no second turn was free is a slow failure if it was slow.
func TestRefusedSecondTurnLeavesTheDurationOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(3, 0)
		l.own = func(string, string) (float64, int) { return 0.1, 0 }
		p := must(t, l, "a:443")
		time.Sleep(2 * slowFailure)
		if p.again(t.Context()) == nil {
			t.Fatal("a second turn was free")
		}
		p.end(notice.RetryResult(notice.ReasonStatus4xx, "401"), false)
		if p.h.health != hung {
			t.Errorf("health %d, want hung", p.h.health)
		}
	})
}

// The lower of the route's limits and those of an operator hold, at once and for that host only.
func TestOperatorLimitsOneHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, rate, most := testLimits(3, 0), 0.0, 0
		l.own = func(_, host string) (float64, int) {
			if host != "a:443" {
				return 0, 0
			}
			return rate, most
		}
		first := must(t, l, "a:443")
		most = 1
		refusal(t, l, "a:443", notice.ReasonBusy)
		if room, _ := l.room("a:443"); room != 0 {
			t.Errorf("room for %d", room)
		}
		must(t, l, "b:443").end(good, false)
		most = 9
		second, third := must(t, l, "a:443"), must(t, l, "a:443")
		refusal(t, l, "a:443", notice.ReasonBusy)
		for _, p := range []*pass{first, second, third} {
			p.end(good, false)
		}

		rate = 0.5
		p := must(t, l, "a:443")
		if p.again(t.Context()) == nil {
			t.Error("a call is repeated above the operator's rate")
		}
		p.end(good, false)
		refusal(t, l, "a:443", notice.ReasonRate)
		must(t, l, "b:443").end(good, false)
		time.Sleep(2 * time.Second)
		must(t, l, "a:443").end(good, false)
		rate = 0
		must(t, l, "a:443").end(good, false)

		unlimited := testLimits(0, 0)
		unlimited.own = func(string, string) (float64, int) { return 0, 2 }
		must(t, unlimited, "a:443")
		must(t, unlimited, "a:443")
		refusal(t, unlimited, "a:443", notice.ReasonBusy)
	})
}

// While retries use up a rate, first attempts that need half of it are not deferred, and retries get the rest.
func TestRateIsForFirstAttemptsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(0, 100)
		var firsts, refusedFirsts, retries int
		for ms := range 10_000 {
			for range 2 {
				if p, _ := l.enter("a:80", notice.ClassRetry); p != nil {
					retries++
				}
			}
			if ms%20 == 0 {
				if p, _ := l.enter("a:80", notice.ClassFirst); p != nil {
					firsts++
				} else {
					refusedFirsts++
				}
			}
			time.Sleep(time.Millisecond)
		}
		if refusedFirsts > 0 || firsts+retries < 990 {
			t.Errorf("%d first attempts began, %d were deferred, %d retries began", firsts, refusedFirsts, retries)
		}
	})
}

// Retries get their turns beside first attempts that would use the whole rate.
func TestRetriesGetTurnsOfARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(0, 100)
		var began [notice.Classes]int
		for range 10_000 {
			for _, c := range []notice.Class{notice.ClassFirst, notice.ClassRetry} {
				if p, _ := l.enter("a:80", c); p != nil {
					began[c]++
				}
			}
			time.Sleep(time.Millisecond)
		}
		if n := began[notice.ClassRetry]; n < 50 || n > 200 || began[notice.ClassFirst] < 800 {
			t.Errorf("%v began of 1000", began)
		}
	})
}
