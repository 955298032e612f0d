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
	maxLookKeys = 1024 // keys that all of them show together, before each is shown a few only
)

// LookAhead is how far reconcilers look: what comes to be due within it sends a wake,
// whatever is due before it, because a look may have been made already that shows what
// there is to come. The scripts have the number too.
const LookAhead = 50 * time.Millisecond

// Timer is a notice key and when it needs attention.
type Timer struct {
	Key string
	At  time.Time
	// NoTimer: it has no Redis timer; touching it does nothing.
	NoTimer bool
}

// Look asks what is due in one partition, and what will be within Ahead: at most
// Limit keys.
type Look struct {
	Partition    keys.Partition
	Grace, Ahead time.Duration
	Limit        int
}

// View is what one Look sees.
type View struct {
	Now     time.Time // by Redis
	Overdue int64
	Near    []Timer // in order of At
	// Cut: there may be more within the look ahead than was returned.
	Cut bool
	// Err: this partition alone could not be read.
	Err error
}

// Look looks at up to MaxLooks partitions; in a cluster all of them must be of one
// shard. The views are in the order of the list.
func (s *Store) Look(ctx context.Context, list []Look) ([]View, error) {
	ks, args := make([]string, len(list)), make([]any, 1, 1+3*len(list))
	args[0] = maxLookKeys
	for i, l := range list {
		ks[i] = s.space.Shadow(l.Partition)
		args = append(args, l.Grace.Milliseconds(), l.Ahead.Milliseconds(), l.Limit)
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
	if len(seen) < 2 {
		return View{Now: now}
	}
	w := View{Now: now, Near: make([]Timer, 0, (len(seen)-2)/2), Cut: seen[1] == int64(1)}
	w.Overdue, _ = seen[0].(int64)
	for i := 2; i+1 < len(seen); i += 2 {
		key, _ := seen[i].(string)
		text, _ := seen[i+1].(string)
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		ms := int64(f)
		w.Near = append(w.Near, Timer{Key: key, At: time.UnixMilli(ms).UTC(), NoTimer: !hasTimer(f)})
	}
	return w
}
