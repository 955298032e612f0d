package auth

import (
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Limits of failed attempts from one address at one instance: a burst, then one each interval.
const (
	failureBurst = 10
	failureEvery = 6 * time.Second
	maxAddresses = 8192
	logEvery     = time.Minute
)

// Places where a wrong token can be presented.
const (
	ViaAPI   = "api"
	ViaPages = "pages"
)

// FailuresOptions configure [NewFailures].
type FailuresOptions struct {
	// Logger gets at most one line a minute and address. Nil means no log.
	Logger *zap.Logger
	// Count is called for each failure. Nil means no count.
	Count func(via string)
}

// Failures limits and logs attempts with a wrong token, by address. It never limits a correct token, because clients
// behind a proxy share the address of others with wrong tokens. Its methods may be called concurrently.
type Failures struct {
	o FailuresOptions

	mu        sync.Mutex
	addresses map[string]*failing
}

// failing is an address with failed attempts.
type failing struct {
	recovered time.Time // when the whole burst is available again
	logged    time.Time
	unlogged  int
}

// NewFailures returns a Failures without attempts.
func NewFailures(o FailuresOptions) *Failures {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}

	if o.Count == nil {
		o.Count = func(string) {}
	}

	return &Failures{o: o, addresses: map[string]*failing{}}
}

// Add records a failed attempt. A positive wait means that the address has used up its attempts: the caller answers
// 429, and the address may try again after wait.
func (f *Failures) Add(address, via string) (wait time.Duration) {
	f.o.Count(via)
	f.mu.Lock()
	defer f.mu.Unlock()

	now := time.Now()
	a := f.of(network(address), now)
	f.log(a, address, via, now)
	if a.recovered.Before(now) {
		a.recovered = now
	}

	next := a.recovered.Add(failureEvery)
	if wait = next.Sub(now) - failureBurst*failureEvery; wait > 0 {
		return wait
	}

	a.recovered = next
	return 0
}

// log writes at most one line a minute and address.
func (f *Failures) log(a *failing, address, via string, now time.Time) {
	a.unlogged++
	if !a.logged.IsZero() && now.Sub(a.logged) < logEvery {
		return
	}

	f.o.Logger.Warn("authentication failed: unknown token", zap.String("address", address), zap.String("via", via),
		zap.Int("failures", a.unlogged))
	a.logged, a.unlogged = now, 0
}

// of returns the entry of a network.
func (f *Failures) of(network string, now time.Time) *failing {
	a := f.addresses[network]
	if a == nil {
		if len(f.addresses) >= maxAddresses {
			f.makeRoom(now)
		}

		a = &failing{}
		f.addresses[network] = a
	}

	return a
}

// makeRoom removes the recovered addresses, and arbitrary others if too few have recovered.
func (f *Failures) makeRoom(now time.Time) {
	for network, a := range f.addresses {
		if !a.recovered.After(now) && now.Sub(a.logged) >= logEvery {
			delete(f.addresses, network)
		}
	}
	for network := range f.addresses {
		if len(f.addresses) < maxAddresses*7/8 {
			return
		}
		delete(f.addresses, network)
	}
}

// network returns the limited unit of an address: an IPv4 address, or the /64 of an IPv6 address, which usually belongs
// to one customer.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if a = a.Unmap(); a.Is4() {
		return a.String()
	}

	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return address
	}

	return p.String()
}
