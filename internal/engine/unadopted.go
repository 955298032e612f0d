package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/dispatch"
	"notifier/internal/route"
	"notifier/internal/store"
)

// unadoptedEvery is how often a route's timers are looked up that led to no
// claim: it is rare that one is a stranger's, and others' claims bring many.
const unadoptedEvery = 10 * time.Second

// unadopted tells of plain timers under routes that do not adopt: whoever sets
// them waits for a callback that does not come. Each route's are told once, so
// that it holds as many entries as there are routes.
type unadopted struct {
	notices dispatch.Finder
	logger  *zap.Logger

	look chan timer // one that waits to be looked up

	mu   sync.Mutex
	told map[string]bool      // by prefix
	next map[string]time.Time // by prefix: not looked up before
}

// timer is one whose event led to no claim.
type timer struct {
	route *route.Route
	key   string
}

func newUnadopted(notices dispatch.Finder, logger *zap.Logger) *unadopted {
	return &unadopted{notices: notices, logger: logger, look: make(chan timer, 1), told: map[string]bool{}, next: map[string]time.Time{}}
}

// stale hears of expired timers that led to no claim. It does not block: of many
// one is looked up, now and then.
func (u *unadopted) stale(r *route.Route, ks []string) {
	if r.Adopt || len(ks) == 0 {
		return
	}
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.told[r.Prefix] || now.Before(u.next[r.Prefix]) {
		return
	}
	select {
	case u.look <- timer{r, ks[0]}:
		u.next[r.Prefix] = now.Add(unadoptedEvery)
	default:
	}
}

// strays hands the keys of timers that led to no claim to those whom they concern.
type strays struct{ e *Engine }

// Stale implements dispatch.Strays.
func (s strays) Stale(r *route.Route, ks []string) {
	s.e.adopter.Stale(r, ks)
	if s.e.o.Retention > 0 { // otherwise a delivered notice cannot be told from one that never was
		s.e.unadopted.stale(r, ks)
	}
}

// Run looks up what it hears of until ctx ends, and returns nil.
func (u *unadopted) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-u.look:
			// What was delivered, moved or cancelled meanwhile is found.
			if _, err := u.notices.Find(ctx, t.key); !errors.Is(err, store.ErrNotFound) {
				continue
			}
			u.mu.Lock()
			u.told[t.route.Prefix] = true
			u.mu.Unlock()
			u.logger.Warn("a plain timer expired under a route that does not adopt; nothing is delivered, and others like it are not told",
				zap.String("key", t.key), zap.String("route", t.route.Name), zap.String("prefix", t.route.Prefix),
				zap.String("remedy", "schedule notices through the API, the command line or deploy/schedule.lua; or let the route take plain timers over: its variable _ADOPT=true"))
		}
	}
}
