package receivers

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// State selects receivers in a list.
type State string

// The states of receivers in lists.
const (
	StateFailing State = "failing" // the last attempt failed, or the breaker is not closed
	StatePaused  State = "paused"
	StateLimited State = "limited"
	// StateRecovered receivers failed within 48 hours, and answer again.
	StateRecovered State = "recovered"
)

// States are all states.
var States = []State{StateFailing, StatePaused, StateLimited, StateRecovered}

// Listed is a receiver with all that decides its place in a list, and whether a selection has it.
type Listed struct {
	Name            string    // host with port, list, stream or audience
	Since           time.Time // the first failure after the last success; zero = it is not failing
	LastAttempt     time.Time // zero = it did not fail within 48 hours
	Reason          string    // of the last attempt
	Waiting         int
	Broken          bool // its breaker is not closed
	Paused, Limited bool
	// Tie orders receivers of one name.
	Tie string
}

// Selection selects receivers of a list. Empty members select all.
type Selection struct {
	Contains string // a part of the name
	State    State
	Reason   string // of the last attempt
}

// Has reports whether the selection has a receiver.
func (s Selection) Has(l *Listed) bool {
	failing := !l.Since.IsZero() || l.Broken
	is := map[State]bool{"": true, StateFailing: failing, StatePaused: l.Paused, StateLimited: l.Limited,
		StateRecovered: !failing && !l.LastAttempt.IsZero()}
	return is[s.State] && strings.Contains(strings.ToLower(l.Name), strings.ToLower(s.Contains)) && (s.Reason == "" || s.Reason == l.Reason)
}

// spans are the times of failing that lists tell apart.
var spans = []time.Duration{24 * time.Hour, 6 * time.Hour, time.Hour, FailingLong}

// Position returns the place of a receiver in a list, as a text that sorts like the list. Failing receivers come first:
// those that fail for a day, for 6 hours, for an hour, for 15 minutes, and the others. Among these, the receiver with the
// most waiting notices comes first. Paused and limited receivers follow, then those that have recovered, then all others.
func (l *Listed) Position(now time.Time) string {
	class, span := 3, len(spans)
	switch {
	case !l.Since.IsZero() || l.Broken:
		class = 0
		for i := len(spans) - 1; i >= 0 && !l.Since.IsZero() && now.Sub(l.Since) >= spans[i]; i-- {
			span = i
		}
	case l.Paused || l.Limited:
		class = 1
	case !l.LastAttempt.IsZero():
		class = 2
	}

	since := cmp.Or(max(l.Since.UnixMilli(), 0), 1e13-1)
	return fmt.Sprintf("%d%d %010d %013d %s %s", class, span, 1e10-1-int64(min(l.Waiting, 1e9)), since, l.Name, l.Tie)
}
