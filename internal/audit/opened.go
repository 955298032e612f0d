package audit

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// openedAgain is the time after which the same opening gets another entry: a page that refreshes itself repeats it all the time.
	openedAgain = time.Minute
	mostOpened  = 10_000
)

// openings are the last openings of sealed notices.
type openings struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[string]time.Time
}

// Opened is Note for sealed notices whose content was shown: at most once a minute for each client, way of signing in, and key or prefix.
func (t *Trail) Opened(ctx context.Context, e Entry, more ...zap.Field) {
	if e.Action, e.Result = Open, Done; t.opened.first(&e) {
		t.Note(ctx, e, more...)
	}
}

// first reports whether the opening has no entry yet, and remembers that it gets one. Above mostOpened, it forgets others.
func (o *openings) first(e *Entry) bool {
	of := strings.Join([]string{e.Client, e.Via, e.Key, e.Prefix, e.Route}, "\n")
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if at, ok := o.last[of]; ok && now.Sub(at) < openedAgain {
		return false
	}

	for old := range o.last {
		if len(o.last) < mostOpened {
			break
		}

		delete(o.last, old)
	}

	o.last[of] = now
	return true
}
