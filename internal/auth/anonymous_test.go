package auth

import (
	"fmt"
	"testing"
	"time"
)

func TestAnonymousLimitsEachAddress(t *testing.T) {
	t.Parallel()
	p, now := NewAnonymous(), time.Now()
	admitted := 0
	for i := range 100 { // a /64 of IPv6 addresses counts as one caller
		if p.Admit(fmt.Sprintf("2001:db8::%x", i), now) {
			admitted++
		}
	}
	if admitted != anonymousBurst {
		t.Errorf("%d of 100 calls at once are admitted, want %d", admitted, anonymousBurst)
	}
	if !p.Admit("2001:db8::1", now.Add(time.Second)) {
		t.Error("a second later none is admitted")
	}
	others := 0
	for i := range 100 {
		if p.Admit(fmt.Sprintf("192.0.2.%d", i), now) {
			others++
		}
	}
	if others < 99 { // one may share a bucket with the first address
		t.Errorf("%d of 100 other addresses are admitted", others)
	}
}
