package access

import (
	"hash/maphash"
	"time"

	"golang.org/x/time/rate"
)

// Limits of calls that need no token, from one address.
const (
	anonymousRate  = 5 // a second
	anonymousBurst = 20
	// anonymousBuckets bounds the memory. Addresses with the same hash share a limit.
	anonymousBuckets = 4096
)

// Anonymous limits the calls of addresses that show no token. It may be used by many
// goroutines at once.
type Anonymous struct {
	seed    maphash.Seed
	buckets [anonymousBuckets]*rate.Limiter
}

// NewAnonymous makes an Anonymous.
func NewAnonymous() *Anonymous {
	p := &Anonymous{seed: maphash.MakeSeed()}
	for i := range p.buckets {
		p.buckets[i] = rate.NewLimiter(anonymousRate, anonymousBurst)
	}
	return p
}

// Admit reports whether a call from address may be answered at the time now.
func (p *Anonymous) Admit(address string, now time.Time) bool {
	return p.buckets[maphash.String(p.seed, network(address))%anonymousBuckets].AllowN(now, 1)
}
