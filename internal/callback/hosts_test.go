package callback

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
)

// Random host names grew the table of hosts by 530 bytes each for ten minutes: 1.6 GB at 5,000 per second.
func TestRandomHostsDoNotGrowTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(16, 0)
		held := must(t, l, "held:80")
		for range breakerFailures {
			p := must(t, l, "hangs:80")
			time.Sleep(2 * slowFailure)
			p.end(timeout, true)
		}
		for range series {
			must(t, l, "busy:80").end(status(429), false)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 20 * hostsKept {
			p, _ := l.enter(fmt.Sprintf("h%d.evil.example:80", i), notice.ClassFirst)
			p.end(refused, false)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if n := len(l.hosts.byName); n > hostsKept+1 {
			t.Errorf("%d hosts are kept, want at most %d and the one that is being called", n, hostsKept)
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
			t.Errorf("grown by %d bytes", grown)
		}
		// Marked hosts are not pushed out by others.
		refusal(t, l, "hangs:80", notice.ReasonBreaker)
		if n := l.hosts.byName["busy:80"].limit(16); n != 7 {
			t.Errorf("a host that asked to be called less has %d slots, want 7", n)
		}
		held.end(good, false)
		if l.hosts.byName["held:80"] == nil {
			t.Error("a host that was being called was forgotten")
		}
	})
}

// Any number of hosts that hang leaves room for hosts that answer.
func TestHangingHostsDoNotFillTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(16, 0)
		l.hosts.most = 64
		for i := range 1000 {
			p := must(t, l, fmt.Sprintf("hangs%d:80", i))
			time.Sleep(slowFailure)
			p.end(timeout, true)
			for j := range 30 {
				must(t, l, fmt.Sprintf("good%d:80", j)).end(good, false)
			}
		}
		known := 0
		for j := range 30 {
			if h := l.hosts.byName[fmt.Sprintf("good%d:80", j)]; h != nil && h.health == answers {
				known++
			}
		}
		if n := len(l.hosts.byName); known != 30 || n > 64 {
			t.Errorf("%d of 30 hosts that answer are known, %d in all", known, n)
		}
	})
}
