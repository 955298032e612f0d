package receivers

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// holdFor is how long a notice is held by a pause without an end. Then it is claimed again.
const holdFor = time.Hour

// Holds is an instance's knowledge of paused and limited receivers. It is safe for concurrent use.
type Holds struct {
	// Owners are the clients that schedule notices. It is set before the first use.
	Owners []Owner

	layout  *store.Layout
	table   atomic.Pointer[HoldTable]
	known   atomic.Pointer[[]bool] // by shard
	changed chan struct{}          // has one entry after a change
}

// NewHolds returns Holds that know nothing yet: see Follow.
func NewHolds(l *store.Layout) *Holds {
	h := &Holds{layout: l, changed: make(chan struct{}, 1)}
	h.table.Store(newHoldTable(0, nil))
	return h
}

// Table returns the entries as last read.
func (h *Holds) Table() *HoldTable { return h.table.Load() }

// Follow reads the entries if they have changed, and repairs the shards' copies. After an error the entries stay as they
// were. Only one goroutine may call it at a time.
func (h *Holds) Follow(ctx context.Context) error {
	before := h.known.Load()
	since := h.Table().version
	if before == nil {
		since = -1
	}

	r, err := h.layout.Receivers(ctx, since)
	if err != nil {
		return err
	}

	if r.Values != nil {
		h.table.Store(newHoldTable(r.Version, r.Values))
		select {
		case h.changed <- struct{}{}:
		default:
		}
	}

	if before != nil { // what was read once stays known
		for shard, was := range *before {
			r.Known[shard] = r.Known[shard] || was
		}
	}

	h.known.Store(&r.Known)
	if r.Stale {
		return h.layout.CopyReceivers(ctx)
	}

	return nil
}

// Read returns the entries as they are now in Redis. While they cannot be read, it returns the last ones.
func (h *Holds) Read(ctx context.Context) (*HoldTable, error) {
	t := h.Table()
	r, err := h.layout.Receivers(ctx, t.version)
	switch {
	case err != nil && h.known.Load() != nil && ctx.Err() == nil:
		return t, nil
	case err != nil:
		return nil, err
	case r.Values == nil:
		return t, nil
	}

	return newHoldTable(r.Version, r.Values), nil
}

// IsRead reports whether the entries were read for the notices of a shard.
func (h *Holds) IsRead(shard int) bool {
	known := h.known.Load()
	return known != nil && shard < len(*known) && (*known)[shard]
}

// Version returns the version of the entries as last read.
func (h *Holds) Version() int64 { return h.Table().version }

// Held returns the pause that holds a claimed notice of a route, and the time until which it is postponed. ok is false if
// its receiver is not paused. now is by Redis's clock.
func (h *Holds) Held(r *route.Route, n *notice.Notice, now time.Time) (pause string, until time.Time, ok bool) {
	t := h.Table()
	if len(t.pauses) == 0 || r.Target.Kind != route.KindFixed && r.Target.Kind != route.KindNotice {
		return "", time.Time{}, false
	}

	host := ReceiverOf(r, n.URL)
	p := t.held(n.Key, host, n.Audience, func(p *Pause) bool {
		if p.Rule == "" || !p.Active(now) {
			return p.Active(now)
		}

		ruled, _ := h.Ruled(r, n, host)
		return p.Receiver == ruled && !p.probes(n, n.NextAttempt())
	})
	if p == nil {
		return "", time.Time{}, false
	}

	until = now.Add(holdFor)
	if !p.Until.IsZero() {
		until = p.Until
		if p.Over > 0 {
			until = until.Add(rand.N(p.Over))
		}
	}

	return p.String(), until, true
}

// Limit returns the limits of a host with its port on the route with a prefix; 0 = the route's.
func (h *Holds) Limit(prefix, host string) (rate float64, concurrency int) {
	return h.Table().Limit(prefix, host)
}

// ErrUntil is returned if the end of a pause is not in the future.
var ErrUntil = errors.New("until is not in the future")

// Author is the client that makes a pause or a limit, and how many of them it may have made. The zero value is a service
// without clients.
type Author struct {
	Client string
	Most   int
}

// Pause pauses a receiver until a time, or until it is resumed if the time is zero. After that time, held notices are spread
// over a duration. A repeated call changes both.
func (h *Holds) Pause(ctx context.Context, by Author, r Receiver, until time.Time, over time.Duration) error {
	v := value{Over: over.Milliseconds()}
	if !until.IsZero() {
		now, err := h.layout.Wire().Now(ctx)
		if err != nil {
			return err
		}
		if !until.After(now) {
			return ErrUntil
		}

		v.Until = until.UnixMilli()
	}

	return h.set(ctx, by, r.String(), v.text())
}

// Resume ends the pause of a receiver, and spreads its held notices over a duration. It reports whether the receiver was
// paused.
func (h *Holds) Resume(ctx context.Context, r Receiver, over time.Duration) (paused bool, err error) {
	for range 3 {
		p, _, err := h.stored(ctx, r)
		if err != nil {
			return false, err
		}

		if p == nil || p.Resumed {
			return false, nil
		}

		done, err := h.end(ctx, p, over)
		if err != nil || done {
			return true, err
		}
	}
	return false, errors.New("the pause was changed by other calls; try again")
}

// stored reads the pause of a receiver as it is now in Redis, and its text; nil = there is none.
func (h *Holds) stored(ctx context.Context, r Receiver) (p *Pause, text string, err error) {
	values, err := h.layout.Receivers(ctx, -1)
	if err != nil {
		return nil, "", err
	}

	text = values.Values[r.String()]
	p, _ = readEntry(r.String(), text)
	return p, text, nil
}

// end ends a pause, and spreads its held notices over a duration. It reports false if the pause has changed since it was read.
func (h *Holds) end(ctx context.Context, p *Pause, over time.Duration) (bool, error) {
	return h.layout.SetReceiver(ctx, store.ReceiverChange{Field: p.String(), Value: p.resumed(over, p.Told), Expected: p.text})
}

// SetLimit sets the limits of a host. If both are 0, it removes them.
func (h *Holds) SetLimit(ctx context.Context, by Author, l Limit) error {
	text := ""
	if l.Rate > 0 || l.Concurrency > 0 {
		text = value{Rate: l.Rate, Concurrency: l.Concurrency}.text()
	}

	return h.set(ctx, by, limitField(l.Receiver), text)
}

func (h *Holds) set(ctx context.Context, by Author, field, text string) error {
	_, err := h.layout.SetReceiver(ctx, store.ReceiverChange{Field: field, Value: text, Client: by.Client, Most: by.Most})
	return err
}
