//go:build fault

package acceptance

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/testkit"
)

func TestKilledInstanceLosesNoneOfFiveThousand(t *testing.T) { instanceKilled(t, 5000) }

func TestKilledRedisLosesNoneOfFiveThousand(t *testing.T) { redisKilled(t, 5000) }

func TestShutdownFinishesTwoHundredHandlers(t *testing.T) { stopFinishes(t, 200) }

// hour fills a route with n notices an hour ahead.
func (s *service) hour(n int, prefix string) {
	s.t.Helper()
	due := time.Now().Add(time.Hour)
	s.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("%s:later:%d", prefix, i), due) })
}

// wide is the route of most tests: one receiver and room for many calls to it.
func wide(url string) []string {
	return route("pay", "app1:pay", url, "CONCURRENCY=64", "HOST_CONCURRENCY=64")
}

// A thousand notices over five seconds, a hundred thousand an hour ahead.
func TestDeliveryOnTimeAmongAHundredThousandPending(t *testing.T) {
	for _, c := range []struct {
		name   string
		config []string
		most   time.Duration // far more than the aim: the machine may be loaded
	}{
		{"with events", nil, 500 * time.Millisecond},
		{"without", []string{`notify-keyspace-events ""`, `rename-command CONFIG ""`}, 800 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := listen(t, nil)
			db := newRedis(t, testkit.WithConfig(c.config...))
			s := launch(t, db.URL(), wide(rec.url))
			s.hour(100_000, "app1:pay")
			from := time.Now().Add(2 * time.Second)
			s.scheduleAll(1000, func(i int) string {
				return line(fmt.Sprintf("app1:pay:now:%d", i), from.Add(time.Duration(i)*5*time.Millisecond))
			})
			rec.wait(waitTimeout, 1000)
			await(t, waitTimeout, "all settled", func() bool { return s.settled("pay") == 1000 })
			rec.once(1000)
			x, late := s.numbers("pay"), rec.lateness("app1")
			if late.p99 > c.most {
				t.Errorf("lateness %s, want p99 ≤ %s", late, c.most)
			}
			if x.Pending != 100_000 {
				t.Errorf("%d pending, want 100,000", x.Pending)
			}
			t.Logf("%s: at the receiver %s; by the service's histogram p50 ≤ %.1f ms, p99 ≤ %.1f ms", c.name, late, x.LatenessP50MS, x.LatenessP99MS)
			said := strings.Count(tail(s.log), "no expired events")
			h, err := s.api.Ready(t.Context())
			if err != nil || !h.Ready || h.Degraded != (c.config != nil) || (said == 1) != (c.config != nil) {
				t.Errorf("%v, %+v, said %d times in the log", err, h, said)
			}
		})
	}
}

// With notices 15 ms apart, no notice waits for the settle of its predecessor.
func TestDeliveryOnTimeAtLowRate(t *testing.T) {
	const n = 300
	rec := listen(t, nil)
	db := newRedis(t)
	s := launch(t, db.URL(), wide(rec.url))
	s.stream(n, n*15*time.Millisecond)
	s.complete(rec, n)
	late := rec.lateness("app1")
	// The grace is 50 ms: notices that wait for it have a median lateness of 25 ms.
	if late.p50 > 20*time.Millisecond {
		t.Errorf("lateness %s, want p50 ≤ 2 ms", late)
	}
	t.Logf("lateness %s", late)
}

func TestThreeInstancesShare(t *testing.T) {
	const n = 3000
	rec := listen(t, nil)
	db := newRedis(t)
	var all []*service
	for range 3 {
		all = append(all, launch(t, db.URL(), wide(rec.url)))
	}
	from := time.Now().Add(2 * time.Second)
	all[0].scheduleAll(n, func(i int) string {
		return line(fmt.Sprintf("app1:pay:now:%d", i), from.Add(time.Duration(i)*time.Millisecond))
	})
	rec.wait(waitTimeout, n)
	await(t, waitTimeout, "all settled", func() bool { return all[0].settled("pay") == n })
	rec.once(n)
	sum := 0.0
	var shares []string
	for i, s := range all {
		f := s.metric("notifier_attempts_total", `outcome="delivered"`)
		if sum += f; f == 0 {
			t.Errorf("instance %d delivered nothing", i)
		}
		shares = append(shares, fmt.Sprintf("%.0f (lost claims %.0f)", f, s.metric("notifier_claims_total", `result="lost"`)))
	}
	if sum != n {
		t.Errorf("the instances count %.0f deliveries, want %d", sum, n)
	}
	t.Logf("shares %s; lateness %s", strings.Join(shares, ", "), rec.lateness("app1"))
}

// memory reads VmRSS or VmHWM of the service, in MiB; 0 where there is no /proc.
func (s *service) memory(field string) int {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0
	}
	for l := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(l, field+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				s.t.Error(err)
			}
			return kib >> 10
		}
	}
	return 0
}

// logLines counts the occurrences of a text in the log. For the empty text it counts lines.
func (s *service) logLines(text string) int {
	s.t.Helper()
	raw, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	if text == "" {
		return bytes.Count(raw, []byte("\n"))
	}
	return bytes.Count(raw, []byte(text))
}

// Keys of others expire at 10,000 a second beside the real notices.
func TestForeignKeysFloodLosesNothing(t *testing.T) {
	const seconds, aSecond, real = 10, 10_000, 1000
	rec := listen(t, nil)
	db := newRedis(t)
	s := launch(t, db.URL(), wide(rec.url))
	before := s.memory("VmRSS")
	from := time.Now().Add(time.Second)
	s.scheduleAll(real, func(i int) string {
		return line(fmt.Sprintf("app1:pay:now:%d", i), from.Add(time.Duration(i)*seconds*time.Second/real))
	})
	ctx, c := t.Context(), db.Client()
	huge := strings.Repeat("x", 10<<20)
	forms := []string{"session:%d", "a:b:c:d:%d", "app1:pay:\xff\xfe:%d", "app9:no:route:%d", "notifier:x:y:%d", "::: %d",
		"app1:pay:t:\n\x00%d", "%d"}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last []string
	for round := range seconds * 10 {
		<-tick.C
		p := c.Pipeline()
		var names []string
		for i := range aSecond / 10 {
			name := fmt.Sprintf(forms[i%len(forms)], round*aSecond+i)
			names = append(names, name)
			p.Set(ctx, name, "v", 20*time.Millisecond)
		}
		if round%20 == 0 {
			name := huge + strconv.Itoa(round)
			names = append(names, name)
			p.Set(ctx, name, "v", 20*time.Millisecond)
		}
		if len(last) > 0 {
			for _, name := range last { // so that they expire at this rate and not when Redis finds them
				p.Exists(ctx, name)
			}
		}
		if _, err := p.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		last = names
	}
	await(t, waitTimeout, "the last keys expired", func() bool {
		return !slices.ContainsFunc(last, func(name string) bool { return c.Exists(ctx, name).Val() > 0 })
	})
	rec.wait(waitTimeout, real)
	await(t, waitTimeout, "all settled", func() bool { return s.settled("pay") == real })
	rec.once(real)
	await(t, waitTimeout, "the events counted", func() bool {
		return s.metric("notifier_events_total", `"foreign"`)+s.metric("notifier_events_total", `"unrouted"`) >= seconds*aSecond
	})
	foreign, unrouted := s.metric("notifier_events_total", `"foreign"`), s.metric("notifier_events_total", `"unrouted"`)
	late, after := rec.lateness("app1"), s.memory("VmHWM")
	if n := s.logLines(""); n > 10 {
		t.Errorf("%d lines in the log:\n%s", n, tail(s.log))
	}
	if unrouted < seconds*aSecond/8 || after > before+150 || late.p99 > time.Second {
		t.Errorf("unrouted %.0f, memory %d → %d MiB, lateness %s", unrouted, before, after, late)
	}
	t.Logf("foreign %.0f, unrouted %.0f, resident %d → at most %d MiB, subscriptions %.0f; real notices %s", foreign, unrouted, before, after,
		s.metric("notifier_subscriptions_total"), late)
}

// 300,000 notices due in the same millisecond, and another route beside them.
func TestThreeHundredThousandDueInOneMillisecond(t *testing.T) {
	const n, beside = 300_000, 1000
	rec := listen(t, nil)
	db := newRedis(t)
	s := launch(t, db.URL(), wide(rec.url), route("bulk", "app1:bulk", "list:sink"))
	due := time.Now().Add(60 * time.Second)
	s.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:bulk:one:%d", i), due) })
	// From two seconds before to some after.
	s.scheduleAll(beside, func(i int) string {
		return line(fmt.Sprintf("app1:pay:now:%d", i), due.Add(time.Duration(i-beside/4)*8*time.Millisecond))
	})
	idle := s.memory("VmRSS")
	if left := time.Until(due); left < 3*time.Second {
		t.Fatalf("scheduling took until %s before the due time; the machine is too slow for this test", left)
	}
	ctx, c := t.Context(), db.Client()
	await(t, 4*waitTimeout, "all pushed", func() bool { return c.LLen(ctx, "sink").Val() >= n })
	took := time.Since(due)
	rec.wait(waitTimeout, beside)
	await(t, waitTimeout, "all settled", func() bool {
		x := s.numbers("bulk")
		return x.Pending == 0 && x.Outcomes["delivered"] == n && s.settled("pay") == beside
	})
	rec.once(beside)
	seen := make(map[string]struct{}, n)
	for at := int64(0); at < n+1000; at += 10_000 {
		for _, e := range c.LRange(ctx, "sink", at, at+9999).Val() {
			_, rest, _ := strings.Cut(e, `"key":"`)
			key, _, _ := strings.Cut(rest, `"`)
			seen[key] = struct{}{}
		}
	}
	if got := c.LLen(ctx, "sink").Val(); got != n || len(seen) != n {
		t.Errorf("%d entries, %d different, want %d", got, len(seen), n)
	}
	peak, late := s.memory("VmHWM"), rec.lateness("app1")
	if peak > idle+256 || late.p99 > 2*time.Second {
		t.Errorf("resident %d → at most %d MiB; the other route %s", idle, peak, late)
	}
	t.Logf("%d in %s (%.0f/s); resident %d → at most %d MiB; other route %s; events dispatched %.0f, dropped %.0f, claims by sweep %.0f, "+
		"subscriptions %.0f",
		n, took.Round(time.Millisecond), n/took.Seconds(), idle, peak, late, s.metric("notifier_events_total", `"dispatched"`),
		s.metric("notifier_events_total", `"dropped"`), s.metric("notifier_claims_total", `"sweep"`, `"won"`),
		s.metric("notifier_subscriptions_total"))
}
