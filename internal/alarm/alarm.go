package alarm

import "time"

// Alarm fires once on C after each Set. It has one user at a time.
type Alarm interface {
	// C receives a value when the time has come. Firings that nobody has
	// received are merged; one may be left over from before the last Set.
	C() <-chan struct{}
	// Set lets it fire after d, and at once if d ≤ 0; it replaces an earlier
	// Set.
	Set(d time.Duration)
	// Close frees it. It fires no more.
	Close()
}

// Kind says how an Alarm is made.
type Kind uint8

const (
	Precise  Kind = iota // New
	Portable             // NewTimer, which a synctest bubble can wake
)

// New makes an Alarm of the kind.
func (k Kind) New() Alarm {
	if k == Portable {
		return NewTimer()
	}
	return New()
}

type fallback struct {
	c chan struct{}
	t *time.Timer
}

// NewTimer is the portable Alarm.
func NewTimer() Alarm {
	f := &fallback{c: make(chan struct{}, 1)}
	f.t = time.AfterFunc(time.Hour, func() { notify(f.c) })
	return f
}

func (f *fallback) C() <-chan struct{}  { return f.c }
func (f *fallback) Set(d time.Duration) { f.t.Reset(max(d, 0)) }
func (f *fallback) Close()              { f.t.Stop() }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
