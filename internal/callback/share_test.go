package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// part is a View with fixed answers.
type part struct {
	number  uint64
	share   int
	rate    float64
	prefers bool
	asked   []string
	dead    []string
	among   []string // names that the view was reduced by
	reduced *part    // what Sharers returns; nil = this view
}

func (p *part) Number() uint64                   { return p.number }
func (p *part) Share(string, int) int            { return p.share }
func (p *part) Rate(_ string, r float64) float64 { return p.rate }
func (p *part) Prefers(name string) bool         { p.asked = append(p.asked, name); return p.prefers }
func (p *part) Preferred(name string) string     { return "who gets " + name }
func (p *part) IsAlive(id string) bool           { return !slices.Contains(p.dead, id) }
func (p *part) TakesWork() bool                  { return p.share > 0 }
func (p *part) Sharers(name string, n int) View {
	p.among = append(p.among, fmt.Sprint(name, " ", n))
	if p.reduced != nil {
		return p.reduced
	}
	return p
}
func (p *part) set(f func(p *part)) { f(p); p.number++ }
func (p *part) fleet(tell func(text string)) peers {
	return peers{&fakeFleet{p: p, tell: tell}, true}
}

// fakeFleet is a Fleet with the view p. tell and hand may be nil.
type fakeFleet struct {
	p    *part
	tell func(text string)
	hand func(h Handover)
}

func (f *fakeFleet) View(string) View { return f.p }

func (f *fakeFleet) Broadcast(text string) {
	if f.tell != nil {
		f.tell(text)
	}
}

func (f *fakeFleet) HandOver(h Handover) {
	if f.hand != nil {
		f.hand(h)
	}
}

// An instance has its part of a host's slots, fewer when the fleet grows. A part of zero slots does not mean
// unlimited.
func TestHostSlotsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &part{share: 3}
		l := limitsOf(16, 0, v.fleet(nil))
		var ps []*pass
		for range 3 {
			ps = append(ps, must(t, l, "a:443"))
		}
		if _, res := l.enter("a:443", notice.ClassFirst); res == nil || res.to("k") != "" ||
			!strings.Contains(res.Response, "all 3 slots of a:443 are taken") {
			t.Fatalf("%+v", res)
		}
		v.set(func(p *part) { p.share = 1 })
		ps[0].end(good, false)
		ps[1].end(good, false)
		refusal(t, l, "a:443", notice.ReasonBusy)
		ps[2].end(status(429), false)
		must(t, l, "a:443").end(good, false)
		v.set(func(p *part) { p.share = 0 })
		_, res := l.enter("a:443", notice.ClassFirst)
		if res == nil || res.to("k") != "who gets k" || !slices.Equal(slices.Compact(v.among), []string{"app1 a:443 16"}) ||
			res.Outcome != notice.OutcomeDeferred || res.Reason != notice.ReasonBusy {
			t.Fatalf("without a slot: %+v", res)
		}
		v.set(func(p *part) { p.share = 16 })
		for i := 0; l.hosts.byName["a:443"].allowed > 0; i++ {
			must(t, l, "a:443").end(good, false)
			if i > 100 {
				t.Fatal("a host that changes 429 when this instance had one slot does not recover")
			}
		}
		none := limitsOf(0, 0, (&part{}).fleet(nil))
		for range 100 {
			must(t, none, "a:443")
		}
		each := limitsOf(3, 0, peers{Fleet: &fakeFleet{p: &part{share: 1}}}) // NOTIFIER_LIMITS=instance
		for range 3 {
			must(t, each, "a:443")
		}
		refusal(t, each, "a:443", notice.ReasonBusy)
	})
}

// An instance does not claim notices that it may not call, and the work is divided among no more instances
// than the limits have parts.
func TestInstanceWithoutPartHasNoSlots(t *testing.T) {
	t.Parallel()
	one := func(kind route.Kind, hosts int, rate float64) *route.Route {
		return &route.Route{Name: "orders", Prefix: "app1", Target: route.Target{Kind: kind, URL: &url.URL{Scheme: "http", Host: "a"}},
			Concurrency: 64, HostConcurrency: hosts, Rate: rate, Timeout: time.Second}
	}
	for _, c := range []struct {
		route           *route.Route
		few, with, none int // slots with a part of the limits, and without
	}{
		{one(route.KindLog, 4, 3), 0, 64, 64},
		{one(route.KindNotice, 4, 0), 0, 64, 64},
		{one(route.KindNotice, 4, 3.9), 3, 64, 0},
		{one(route.KindNotice, 4, 0.1), 1, 64, 0},
		{one(route.KindFixed, 0, 0), 0, 64, 64},
		{one(route.KindFixed, 4, 0), 4, 2, 0},
		{one(route.KindFixed, 4, 3), 3, 2, 0},
		{one(route.KindFixed, 4, 5), 4, 2, 0},
	} {
		v := &part{}
		h := New(Options{Fleet: v.fleet(nil).Fleet, Shared: true})
		each := New(Options{Fleet: &fakeFleet{p: v}}) // NOTIFIER_LIMITS=instance
		v.share = 2
		with := h.Slots(c.route)
		v.share = 0
		if few, none := h.MaxInstances(c.route), h.Slots(c.route); few != c.few || with != c.with || none != c.none {
			t.Errorf("%+v: among %d, %d and %d slots; want %d, %d, %d", c.route, few, with, none, c.few, c.with, c.none)
		}
		if few, n := each.MaxInstances(c.route), each.Slots(c.route); few != 0 || n != 64 && n != 4 {
			t.Errorf("for each instance: %+v: among %d, %d slots", c.route, few, n)
		}
	}
}

// TestRateIsShared simulates instances that come and go on a route with 100/s and more notices than that.
// In each second at most 100 calls start, and one more for each instance, except in the second after a
// change. The whole rate is used.
func TestRateIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds = 60
		alive := func(second int) int { return []int{1, 3, 2, 8, 3, 1}[second/10] }
		views, all := make([]*part, 8), make([]*limits, 8)
		for i := range all {
			views[i] = &part{}
			all[i] = limitsOf(0, 100, views[i].fleet(nil))
		}
		start := time.Now()
		var began []time.Duration
		var waiting []time.Duration // when deferred notices return
		for range 600 {
			waiting = append(waiting, 0)
		}
		turn, n := 0, 0
		for now := time.Duration(0); now < seconds*time.Second; now += time.Millisecond {
			if m := alive(int(now / time.Second)); m != n {
				n = m
				for _, v := range views[:n] {
					v.set(func(p *part) { p.rate = 100 / float64(n) })
				}
			}
			for i := range waiting {
				if waiting[i] > now {
					continue
				}
				turn = (turn*31 + 17) % 1009 // in a changing order
				p, res := all[turn%n].enter("a:80", notice.ClassFirst)
				if res != nil {
					waiting[i] = now + res.After
					continue
				}
				began = append(began, now+p.wait)
				p.end(good, false)
				waiting[i] = now + p.wait // another notice takes its place
			}
			time.Sleep(time.Until(start.Add(now + time.Millisecond)))
		}
		count := make([]int, seconds+1)
		for _, at := range began {
			count[min(int(at/time.Second), seconds)]++
		}
		for s := range seconds {
			if s%10 > 0 && count[s] > 100+alive(s) {
				t.Errorf("second %d: %d began with %d instances", s, count[s], alive(s))
			}
			if s%10 > 1 && count[s] < 80 {
				t.Errorf("second %d: only %d began with %d instances", s, count[s], alive(s))
			}
		}
		for s := 0; s < seconds; s += 10 {
			sum := 0
			for _, c := range count[s+1 : s+10] {
				sum += c
			}
			if sum > 909 {
				t.Errorf("seconds %d to %d: %d began", s+1, s+9, sum)
			}
		}
		t.Logf("a second: %v", count)
		v := &part{} // no part of a slow rate
		l := limitsOf(0, 5, v.fleet(nil))
		_, res := l.enter("a:80", notice.ClassFirst)
		if res == nil || res.to("k") != "who gets k" || !slices.Equal(v.among, []string{"app1 5"}) || res.After < minAfter {
			t.Errorf("without a part of the rate: %+v", res)
		}
	})
}

// An operator's limits of one host are divided among the same instances, so that the whole rate is used: with one slot
// or a rate of 1/s it belongs to one instance.
func TestLimitsOfOneHostBelongToTheSameInstances(t *testing.T) {
	for name, c := range map[string]struct {
		rate        float64
		concurrency int
		few         string
	}{
		"one slot":       {10, 1, "app1 a:443 1"},
		"a slow rate":    {1.5, 8, "app1 a:443 1"},
		"only a rate":    {2, 0, "app1 a:443 2"},
		"less than once": {0.5, 0, "app1 a:443 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := &part{share: 1, rate: c.rate}
				all := &part{share: 1, rate: c.rate / 2, reduced: one}
				l, concurrency := limitsOf(0, 0, all.fleet(nil)), 0
				l.own = func(string, string) (float64, int) { return c.rate, concurrency }
				if p, _ := l.enter("a:443", notice.ClassFirst); p != nil { // before the operator set the other limit
					p.end(good, false)
				}
				concurrency = c.concurrency
				began, until := 0, time.Now().Add(20*time.Second)
				for time.Now().Before(until) {
					if p, _ := l.enter("a:443", notice.ClassFirst); p != nil {
						time.Sleep(p.wait)
						p.end(good, false)
						began++
					}
					time.Sleep(10 * time.Millisecond)
				}
				if want := int(20 * c.rate); began < want-1 || began > want+1 || !slices.Contains(all.among, c.few) {
					t.Errorf("%d calls in 20 s, want %d; divided among %q, want %q", began, want, all.among, c.few)
				}
			})
		})
	}
}

// opened makes limits whose breaker for a:80 opens, and returns the published messages.
func opened(t *testing.T, v *part) (l *limits, published *[]string) {
	t.Helper()
	published = &[]string{}
	l = limitsOf(16, 0, v.fleet(func(text string) { *published = append(*published, text) }))
	for range breakerFailures {
		p := must(t, l, "a:80")
		time.Sleep(2 * time.Second)
		p.end(timeout, true)
	}
	return l, published
}

// A breaker that opens here is published with all that another instance needs. It opens there, one instance
// tries, and it closes everywhere when the host answers.
func TestBreakerStateIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := &part{share: 16, prefers: true}, &part{share: 16}
		a, published := opened(t, mine)
		if want := []string{"open app1 a:80 0 5000 20000"}; !slices.Equal(*published, want) {
			t.Fatalf("published %q, want %q", *published, want)
		}
		var changes []string
		b := limitsOf(16, 0, theirs.fleet(func(text string) { changes = append(changes, text) }))
		b.changed = func(host string, from, to gobreaker.State, remote bool) {
			changes = append(changes, fmt.Sprint(host, from, to, remote))
		}
		must(t, b, "a:80").end(refused, true) // it fails here too
		b.heardOpen("a", "a:80", 0, 5*time.Second, 20*time.Second)
		refusal(t, b, "a:80", notice.ReasonBreaker)
		must(t, b, "b:80").end(good, false)
		if want := []string{"a:80closed open true"}; !slices.Equal(changes, want) {
			t.Errorf("receiver of the message logged %q, want %q", changes, want)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		probe := must(t, a, "a:80")
		_, res := b.enter("a:80", notice.ClassFirst)
		if res == nil || res.to("k") != "who gets app1 a:80 0" {
			t.Fatalf("an instance that was not chosen tried, or handed its notice to none: %+v", res)
		}
		if _, res := b.enter("a:80", notice.ClassFirst); res == nil || res.to("k") != "" {
			t.Errorf("a second notice within a second: %+v", res)
		}
		probe.end(timeout, true)
		if last := (*published)[len(*published)-1]; !strings.HasPrefix(last, "open app1 a:80 1 10000 ") {
			t.Fatalf("published %q", last)
		}
		b.heardOpen("a", "a:80", 1, 10*time.Second, 25*time.Second)
		time.Sleep(10*time.Second + time.Millisecond)
		if _, res := b.enter("a:80", notice.ClassFirst); res.to("k") != "who gets app1 a:80 1" {
			t.Errorf("the second try is for %q, the instance of the first", res.to("k"))
		}
		must(t, a, "a:80").end(good, false)
		if last := (*published)[len(*published)-1]; last != "closed app1 a:80" {
			t.Fatalf("published %q", last)
		}
		b.heardClosed("a", "a:80", true)
		for range 16 {
			must(t, b, "a:80")
		}
	})
}

// A host that has answered here since it began to fail at another instance stays open for calls.
func TestCutOffInstanceOpensNoBreakerElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []string
		l := limitsOf(16, 0, (&part{share: 16}).fleet(func(text string) { changes = append(changes, text) }))
		must(t, l, "a:80").end(good, false)
		time.Sleep(10 * time.Second)
		l.heardOpen("a", "a:80", 0, 5*time.Second, 20*time.Second)
		must(t, l, "a:80").end(good, false)
		if want := []string{"answers app1 a:80"}; !slices.Equal(changes, want) {
			t.Errorf("the one for which the host answers says %q, want %q", changes, want)
		}
		time.Sleep(10 * time.Second)
		l.heardOpen("a", "a:80", 0, 5*time.Second, 9*time.Second) // its answer here was before that
		refusal(t, l, "a:80", notice.ReasonBreaker)
	})
}

// If the instance that should try a host reports nothing, other instances try.
func TestOtherInstancesTryAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &part{share: 16}
		l, _ := opened(t, v)
		time.Sleep(breakerOpen + breakerMost - time.Second)
		refusal(t, l, "a:80", notice.ReasonBreaker)
		time.Sleep(time.Second + time.Millisecond)
		must(t, l, "a:80").end(good, false)
		l, _ = opened(t, v)
		time.Sleep(breakerOpen + time.Millisecond)
		refusal(t, l, "a:80", notice.ReasonBreaker)
		v.set(func(p *part) { p.prefers = true }) // the chosen one is dead
		must(t, l, "a:80").end(good, false)
	})
}

// Messages in Redis may come from any client, so malformed ones are ignored.
func TestMalformedMessagesAreIgnored(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	r := noticeRoute()
	if err := h.Prepare(r); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "open", "open " + r.Prefix, "open " + r.Prefix + " a:80", "open " + r.Prefix + " a:80 x y z",
		"open " + r.Prefix + " a:80 -1 5 5", "open " + r.Prefix + " a:80 0 99999999999999999999 5", "open none a:80 0 5000 5000",
		"open " + r.Prefix + " " + strings.Repeat("a", 1000) + " 0 5000 5000", "closed " + r.Prefix + " b:80", "closed",
		"shut " + r.Prefix + " a:80"} {
		h.Receive("x", text)
	}
	s, err := h.state(r)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.limits.hosts.byName); n != 0 {
		t.Errorf("%d hosts are known from nonsense", n)
	}
	h.Receive("x", "open "+r.Prefix+" a:80 0 2147483647 5000")
	if left := time.Until(s.limits.hosts.byName["a:80"].until); left > breakerMost || left < breakerMost-time.Minute {
		t.Errorf("a message closes a host for %s", left)
	}
	h.Receive("x", "closed "+r.Prefix+" a:80")
	if _, res := s.limits.enter("a:80", notice.ClassFirst); res != nil {
		t.Errorf("%+v", res)
	}
}

// trio is three instances that send each other messages. The first cannot reach the host.
type trio struct {
	limits  [3]*limits
	mu      sync.Mutex // guards the counts
	handed  [3]int     // notices that each instance has handed over
	failed  int        // failed calls: attempts used
	refused int        // deferrals of the first instance that were not handed over
}

var trioIDs = [3]string{"a", "b", "c"}

func newTrio() *trio {
	x := &trio{}
	for i := range x.limits {
		x.limits[i] = limitsOf(64, 0, (&part{share: 64, prefers: i == 0}).fleet(func(text string) {
			time.AfterFunc(time.Millisecond, func() { x.hear(i, text) })
		}))
	}
	return x
}

// hear delivers a message to the other instances.
func (x *trio) hear(from int, text string) {
	f := strings.Fields(text)
	for i, l := range x.limits {
		switch {
		case i == from:
		case f[0] == wordOpen:
			n := [3]int{}
			for j := range n {
				n[j], _ = strconv.Atoi(f[3+j])
			}
			l.heardOpen(trioIDs[from], f[2], n[0], time.Duration(n[1])*time.Millisecond, time.Duration(n[2])*time.Millisecond)
		default:
			l.heardClosed(trioIDs[from], f[2], f[0] == wordClosed)
		}
	}
}

// deliver passes a notice to instances until it is delivered or fails. It returns the lateness of the last
// call's start; −1 if an attempt failed.
func (x *trio) deliver(i int, key string, due time.Time) time.Duration {
	for {
		p, res := x.limits[i].enter("a:80", notice.ClassFirst)
		switch {
		case res != nil:
			to := slices.Index(trioIDs[:], res.to(key))
			x.mu.Lock()
			if to >= 0 {
				x.handed[i]++
				i = to
			} else {
				x.refused++
			}
			x.mu.Unlock()
			time.Sleep(res.After)
		case i == 0:
			time.Sleep(5 * time.Second)
			p.end(timeout, true)
			x.mu.Lock()
			x.failed++
			x.mu.Unlock()
			return -1
		default:
			late := time.Since(due)
			time.Sleep(20 * time.Millisecond)
			p.end(good, false)
			return late
		}
	}
}

// An instance that cannot reach a host, while the host answers two others, hands them all notices for it.
// None of these is late.
func TestCutOffInstanceHandsOverAllNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrio()
		const seconds, opens = 60, 6 // the breaker is open after that many seconds
		var all sync.WaitGroup
		var mu sync.Mutex
		late, failed := time.Duration(0), 0
		start := time.Now()
		for i := range 100 * seconds {
			all.Go(func() {
				d := x.deliver(i%3, fmt.Sprint(i), start.Add(time.Duration(i)*10*time.Millisecond))
				mu.Lock()
				defer mu.Unlock()
				if i >= 100*opens && d < 0 {
					failed++
				} else if i >= 100*opens {
					late = max(late, d)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		t.Logf("handed over %v, put off %d times; attempts used %d, of them %d after the breaker opened; at most %s late", x.handed, x.refused,
			x.failed, failed, late)
		if late > 300*time.Millisecond || failed > 5 || x.handed[0] < 100*(seconds-opens)/3-5 {
			t.Errorf("handed over %v; %d attempts failed after the breaker opened; at most %s late", x.handed, failed, late)
		}
	})
}

// Notices are handed to instances only while these are alive and have not opened a breaker for the host
// themselves. It ends when a call from here is answered.
func TestDeadPeersGetNoNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &part{share: 16, prefers: true}
		l, _ := opened(t, v)
		to := func() string {
			_, res := l.enter("a:80", notice.ClassFirst)
			if res == nil {
				t.Fatal("let in")
			}
			return res.to("k")
		}
		l.heardClosed("b", "a:80", false)
		if got := to(); got != "b" {
			t.Errorf("handed to %q", got)
		}
		v.dead = []string{"b"}
		if got := to(); got == "b" {
			t.Error("handed to one that is dead")
		}
		v.dead = nil
		l.heardOpen("b", "a:80", 0, time.Second, time.Second)
		if got := to(); got == "b" {
			t.Error("handed to one with an open breaker")
		}
		l.heardClosed("c", "a:80", true)
		time.Sleep(breakerOpen + time.Millisecond)
		trial := must(t, l, "a:80")
		if got := to(); got != "c" {
			t.Errorf("during the trial handed to %q", got)
		}
		trial.end(good, false)
		for range 16 {
			must(t, l, "a:80")
		}
	})
}

// The notice with which an instance tries a host that it cannot connect to is handed to an instance that the
// host answers.
func TestFailedTrialUsesNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handed []Handover
		fleet := &fakeFleet{p: &part{share: 16, prefers: true}, hand: func(h Handover) { handed = append(handed, h) }}
		h := New(Options{Fleet: fleet, Shared: true})
		defer h.Close()
		h.dial = func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(2 * slowFailure)
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}
		}
		r := fixedRoute("http://shop.test/")
		for range breakerFailures {
			expect(t, h.Handle(t.Context(), r, testNotice("")), notice.OutcomeRetry, notice.ReasonConnect)
		}
		h.Receive("b", "answers "+r.Prefix+" shop.test:80")
		for range 2 { // the second is the trial
			res := h.Handle(t.Context(), r, testNotice(""))
			expect(t, res, notice.OutcomeDeferred, notice.ReasonBreaker)
			if last := handed[len(handed)-1]; last.To != "b" || last.After != handedAfter || res.After != handedAfter {
				t.Errorf("handed %+v, %+v", last, res)
			}
			time.Sleep(breakerOpen + time.Millisecond)
		}
		if len(handed) != 2 {
			t.Errorf("handed over %d times", len(handed))
		}
	})
}
