package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/store"
)

// unadoptedEvery is how often a stale timer of a route is looked up. Claims by other instances
// cause many, and few are plain timers.
const unadoptedEvery = 10 * time.Second

// unadopted warns of plain timers under routes that do not adopt, whose clients wait for a callback
// that never comes. It warns once for each route.
type unadopted struct {
	notices dispatch.Finder
	logger  *zap.Logger

	look chan timer // one timer to look up

	mu   sync.Mutex
	told map[string]bool      // warned routes, by prefix
	next map[string]time.Time // earliest time of the next look-up, by prefix
}

// timer is a timer whose event led to no claim.
type timer struct {
	route *route.Route
	key   string
}

func newUnadopted(notices dispatch.Finder, logger *zap.Logger) *unadopted {
	return &unadopted{notices: notices, logger: logger, look: make(chan timer, 1), told: map[string]bool{}, next: map[string]time.Time{}}
}

// stale considers expired timers that led to no claim. It does not block, and looks only a few of
// them up.
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

// strays passes the keys of timers that led to no claim to adopter and unadopted.
type strays struct{ e *Engine }

// Stale implements dispatch.Strays.
func (s strays) Stale(r *route.Route, ks []string) {
	s.e.adopter.Stale(r, ks)
	if s.e.o.Retention > 0 { // otherwise delivered notices are not found
		s.e.unadopted.stale(r, ks)
	}
}

// Run looks up timers until ctx ends, and returns nil.
func (u *unadopted) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-u.look:
			// Delivered, moved and cancelled notices are found.
			if _, err := u.notices.Find(ctx, t.key); !errors.Is(err, store.ErrNotFound) {
				continue
			}

			u.mu.Lock()
			u.told[t.route.Prefix] = true
			u.mu.Unlock()
			u.logger.Warn(
				"a plain timer expired under a route that does not adopt: nothing is delivered, and later ones of the route are not logged",
				zap.String("key", t.key), zap.String("route", t.route.Name), zap.String("prefix", t.route.Prefix),
				zap.String("remedy", "schedule notices through the API, the command line or deploy/schedule.lua; or let the route adopt plain "+
					"timers: set its variable _ADOPT=true"))
		}
	}
}

// adopts reports whether keys under a prefix may be plain timers. It is true for an unknown prefix:
// another configuration may have an adopting route for it.
func (e *Engine) adopts(prefix string) bool {
	if r := e.o.Routes.Prefix(prefix); r != nil {
		return r.Adopt
	}
	return slices.ContainsFunc(e.o.Routes.All(), func(r *route.Route) bool {
		return r.Adopt && keys.Overlap(prefix, r.Prefix)
	})
}
