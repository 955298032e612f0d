package auth

import (
	"testing"
	"time"
)

func TestMeterLimitsEachClient(t *testing.T) {
	m := NewMeter([]Client{{Name: "slow", Rate: 2}, {Name: "rare", Rate: 1.0 / 60}, {Name: "other"}})
	now := time.Unix(1_000_000, 0)
	admitted := func(client string, tries int) (n int, wait time.Duration) {
		for range tries {
			w, ok := m.Admit(client, now)
			if ok {
				n++
			} else {
				wait = w
			}
		}
		return n, wait
	}
	if n, wait := admitted("slow", 10); n != 2 || wait != 500*time.Millisecond {
		t.Errorf("%d at once, then after %s", n, wait)
	}
	if n, _ := admitted("other", DefaultRate+10); n != DefaultRate {
		t.Errorf("%d at once by default", n)
	}
	if n, wait := admitted("rare", 3); n != 1 || wait != time.Minute {
		t.Errorf("%d of a client with 1/m, then after %s", n, wait)
	}
	if n, _ := admitted("", 100_000); n != 100_000 {
		t.Errorf("a service without clients admits %d", n)
	}
	now = now.Add(10 * time.Second)
	if n, _ := admitted("slow", 1); n != 1 {
		t.Error("a client that has waited is refused")
	}
	m.Charge("slow", 1000, now) // 10 requests, of which one was counted
	if n, wait := admitted("slow", 1); n != 0 || wait != 4500*time.Millisecond {
		t.Errorf("after a batch of 1,000: %d, then after %s", n, wait)
	}
	m.ChargeBytes("rare", 2*64<<10, now)
	m.ChargeBytes("rare", 64<<10-1, now)
	if n, wait := admitted("rare", 1); n != 0 || wait != 2*time.Minute+50*time.Second {
		t.Errorf("after a body of 128 KiB: %d, then after %s", n, wait)
	}
	m.Charge("other", 100, now)
	m.Charge("", 1000, now)
	if n, _ := admitted("other", DefaultRate+10); n != DefaultRate {
		t.Errorf("a batch of 100 counted as more than one request: %d", n)
	}
}
