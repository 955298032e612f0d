package auth

import (
	"time"

	"golang.org/x/time/rate"
)

// DefaultRate is the default of Client.Rate, in requests a second.
const DefaultRate = 5000

// itemsOfRequest items of a batch count as one request, and bytesOfRequest bytes of a body as a further one. Bytes
// count too, because a body of invalid items costs time by its size.
const (
	itemsOfRequest = 100
	bytesOfRequest = 64 << 10
)

// Meter limits the requests of each client at this instance. Its methods may be called concurrently.
type Meter struct{ limits map[string]*rate.Limiter }

// NewMeter returns a Meter for these clients. It does not limit callers without a name, of a service without clients.
func NewMeter(list []Client) *Meter {
	m := &Meter{limits: map[string]*rate.Limiter{}}
	for _, c := range list {
		perSecond := c.Rate
		if perSecond <= 0 {
			perSecond = DefaultRate
		}

		m.limits[c.Name] = rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))
	}

	return m
}

// Clients returns the number of clients; 0 for a nil Meter.
func (m *Meter) Clients() int {
	if m == nil {
		return 0
	}
	return len(m.limits)
}

// Admit reports whether the client may make a request now. If not, wait is the time until it may.
func (m *Meter) Admit(client string, now time.Time) (wait time.Duration, ok bool) {
	l := m.limits[client]
	if l == nil {
		return 0, true
	}

	r := l.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}

	return 0, true
}

// Charge counts the items of an admitted batch as one request for each 100. Admit has counted the first request. The
// client's next requests wait for the charged ones.
func (m *Meter) Charge(client string, items int, now time.Time) {
	m.charge(client, (items-1)/itemsOfRequest, now)
}

// ChargeBytes counts the body of an admitted request as one further request for each full 64 KiB. The client's next
// requests wait for them.
func (m *Meter) ChargeBytes(client string, read int64, now time.Time) {
	m.charge(client, int(read/bytesOfRequest), now)
}

func (m *Meter) charge(client string, requests int, now time.Time) {
	l := m.limits[client]
	if l == nil {
		return
	}

	for range requests {
		l.ReserveN(now, 1) // one at a time, because a reservation above the burst fails
	}
}
