package auth

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// logged is a Failures with what it logs and counts.
type logged struct {
	*Failures
	logs    *observer.ObservedLogs
	counted map[string]int
}

func newLogged() *logged {
	core, logs := observer.New(zapcore.WarnLevel)
	c := &logged{logs: logs, counted: map[string]int{}}
	c.Failures = NewFailures(FailuresOptions{Logger: zap.New(core), Count: func(via string) { c.counted[via]++ }})
	return c
}

func TestFailuresAreLimitedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLogged()
		for range failureBurst {
			if wait := c.Add("192.0.2.1", ViaAPI); wait != 0 {
				t.Fatal(wait)
			}
		}
		for range 3 {
			if wait := c.Add("::ffff:192.0.2.1", ViaPages); wait != failureEvery {
				t.Errorf("%s", wait)
			}
		}
		if wait := c.Add("192.0.2.2", ViaAPI); wait != 0 {
			t.Errorf("another address: %s", wait)
		}
		time.Sleep(failureEvery) // sleep: virtual
		if wait := c.Add("192.0.2.1", ViaAPI); wait != 0 {
			t.Errorf("a little later: %s", wait)
		}
		if c.counted[ViaAPI] != failureBurst+2 || c.counted[ViaPages] != 3 {
			t.Errorf("%v", c.counted)
		}
	})
}

func TestFailuresOfOneIPv6NetworkCountTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLogged()
		for i := range failureBurst {
			if wait := c.Add("2001:db8:1:2::"+strconv.Itoa(i), ViaAPI); wait != 0 {
				t.Fatal(wait)
			}
		}
		if c.Add("2001:db8:1:2:ffff::1", ViaAPI) == 0 || c.Add("2001:db8:1:3::1", ViaAPI) != 0 {
			t.Error("the unit is not a /64")
		}
		if network("@") != "@" || network("fe80::1%eth0") != "fe80::/64" {
			t.Errorf("%s, %s", network("@"), network("fe80::1%eth0"))
		}
	})
}

func TestFailuresAreLoggedOnceAMinuteAndAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLogged()
		for range 50 {
			c.Add("192.0.2.1", ViaAPI)
			c.Add("192.0.2.2", ViaAPI)
		}
		if n := c.logs.Len(); n != 2 {
			t.Errorf("%d lines", n)
		}
		time.Sleep(logEvery) // sleep: virtual
		c.Add("192.0.2.1", ViaPages)
		last := c.logs.All()[c.logs.Len()-1].ContextMap()
		if c.logs.Len() != 3 || last["address"] != "192.0.2.1" || last["via"] != "pages" || last["failures"] != int64(50) {
			t.Errorf("%d lines, %v", c.logs.Len(), last)
		}
	})
}

func TestFailingAddressesDoNotFillTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLogged()
		for i := range 3 * maxAddresses {
			c.Add(strconv.Itoa(i), ViaAPI)
			if len(c.addresses) > maxAddresses {
				t.Fatalf("%d addresses after %d", len(c.addresses), i)
			}
		}
		for i := 0; len(c.addresses) < maxAddresses; i++ {
			c.Add("full "+strconv.Itoa(i), ViaAPI)
		}
		time.Sleep(time.Hour) // sleep: virtual
		if c.Add("one more", ViaAPI); len(c.addresses) != 1 {
			t.Errorf("%d recovered addresses are kept", len(c.addresses))
		}
	})
}
