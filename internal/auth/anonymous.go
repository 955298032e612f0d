package auth

import (
	"hash/maphash"
	"time"

	"golang.org/x/time/rate"
)

// Limits of calls without a token, for each address.
const (
	anonymousRate  = 5 // a second
	anonymousBurst = 20
	// anonymousBuckets bounds the memory. Addresses with the same hash share a limit.
	anonymousBuckets = 4096
)

// Anonymous limits the calls without a token from each address. Its methods may be called concurrently.
type Anonymous struct {
	seed    maphash.Seed
	buckets [anonymousBuckets]*rate.Limiter
}

// NewAnonymous returns an Anonymous with full limits.
func NewAnonymous() *Anonymous {
	p := &Anonymous{seed: maphash.MakeSeed()}
	for i := range p.buckets {
		p.buckets[i] = rate.NewLimiter(anonymousRate, anonymousBurst)
	}

	return p
}

// Admit reports whether a call from the address may be answered at that time.
func (p *Anonymous) Admit(address string, now time.Time) bool {
	return p.buckets[maphash.String(p.seed, network(address))%anonymousBuckets].AllowN(now, 1)
}
