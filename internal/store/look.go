package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/look.lua
var lookSource string

var lookScript = wire.NewScript("look", lookSource, false).Anywhere()

// Bounds of one call of Look.
const (
	MaxLooks    = 64   // partitions
	maxLookKeys = 1024 // keys in all; after that, each partition returns only a few
)

// LookAhead is how far sweepers read ahead. A new notice that is due within it always publishes a wake
// message, because a sweeper may have read that period before. The scripts contain the same number.
const LookAhead = 50 * time.Millisecond

// Timer is a notice key with the time at which the notice needs attention.
type Timer struct {
	Key string
	At  time.Time
	// NoTimer reports whether the notice has no Redis timer, so that touching it has no effect.
	NoTimer bool
	// Repeated reports whether the score shows that the notice has a timer and that its next attempt is not the first.
	Repeated bool
}

// Look selects up to Limit due notices of one partition, and those due within Ahead.
type Look struct {
	Partition    keys.Partition
	Grace, Ahead time.Duration
	Limit        int
	Expiring     bool // read also the View's Expires
	Ticks        bool // read also the View's Tick
}

// View is the result of one Look.
type View struct {
	Now     time.Time // by Redis's clock
	Overdue int64
	Near    []Timer // in order of At
	// Expires is when the first notice expires, or is to be looked at again because its attempt may end without a settle; zero = there
	// is none, or Look.Expiring was not set.
	Expires time.Time
	// Tick is when to store the next occurrence of a recurring notice; zero = never, or Look.Ticks was not set.
	Tick time.Time
	// Cut reports whether there may be more notices within the look-ahead. Gap reports whether some of them may be due: those that
	// Near has in the future do not follow directly.
	Cut, Gap bool
	// Err is set if this partition could not be read.
	Err error
}

// Look reads up to MaxLooks partitions, which in a cluster must be of one shard. The views have the
// order of the list.
func (s *Store) Look(ctx context.Context, list []Look) ([]View, error) {
	ks, args := make([]string, len(list)), make([]any, 1, 1+5*len(list))
	args[0] = maxLookKeys
	for i, l := range list {
		ks[i] = s.space.Shadow(l.Partition)
		args = append(args, l.Grace.Milliseconds(), l.Ahead.Milliseconds(), l.Limit, l.Expiring, l.Ticks)
	}

	v, err := s.w.Run(ctx, lookScript, ks, args)
	if err != nil {
		return nil, err
	}
	if len(v) != 1+len(list) {
		return nil, s.w.Fail(lookScript.Op, fmt.Errorf("a reply of %d parts", len(v)))
	}

	now, views := wire.Micros(v[0]), make([]View, len(list))
	for i, part := range v[1:] {
		if text, failed := part.(string); failed {
			views[i].Err = s.w.Fail(lookScript.Op, wire.Refusal(text))
			continue
		}

		seen, _ := part.([]any)
		views[i] = viewOf(now, seen)
	}

	return views, nil
}

func viewOf(now time.Time, seen []any) View {
	if len(seen) < 4 {
		return View{Now: now}
	}

	w := View{Now: now, Near: make([]Timer, 0, (len(seen)-4)/2), Cut: seen[1] != int64(0), Gap: seen[1] == int64(2)}
	w.Overdue, _ = seen[0].(int64)
	if text, _ := seen[2].(string); text != "" {
		w.Expires = attention(text)
	}

	if text, _ := seen[3].(string); text != "" {
		w.Tick = attention(text)
	}

	for i := 4; i+1 < len(seen); i += 2 {
		key, _ := seen[i].(string)
		text, _ := seen[i+1].(string)
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}

		ms := int64(f)
		w.Near = append(w.Near, Timer{Key: key, At: time.UnixMilli(ms).UTC(), NoTimer: !HasTimer(f), Repeated: repeated(f)})
	}

	return w
}
