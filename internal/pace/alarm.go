package pace

import "time"

// Alarm fires on C once after each Set. It is not safe for concurrent use.
type Alarm interface {
	// C returns the channel of firings. Firings that were not received are merged, and one may be
	// left over from before the last Set. An Alarm fires up to 0.5 ms too early, so that its receiver
	// is awake in time: it calls Rest.
	C() <-chan struct{}
	// Rest waits until the Alarm was to fire, if it has fired too early.
	Rest()
	// Set makes the Alarm fire after d, or at once if d ≤ 0. It replaces an earlier Set.
	Set(d time.Duration)
	// Close releases the Alarm, which fires no more.
	Close()
}

// Kind selects the implementation of an Alarm.
type Kind uint8

const (
	Precise  Kind = iota // New
	Portable             // NewTimer; works in a synctest bubble
)

// New returns an Alarm of the kind.
func (k Kind) New() Alarm {
	if k == Portable {
		return NewTimer()
	}
	return NewAlarm()
}

type fallback struct {
	c chan struct{}
	t *time.Timer
}

// NewTimer returns an Alarm that uses a time.Timer.
func NewTimer() Alarm {
	f := &fallback{c: make(chan struct{}, 1)}
	f.t = time.AfterFunc(time.Hour, func() { notify(f.c) })
	return f
}

func (f *fallback) C() <-chan struct{}  { return f.c }
func (f *fallback) Rest()               {}
func (f *fallback) Set(d time.Duration) { f.t.Reset(max(d, 0)) }
func (f *fallback) Close()              { f.t.Stop() }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
