package reconcile

import (
	"context"
	crand "crypto/rand"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"notifier/internal/route"
)

// Registry notes which instance serves which prefixes.
type Registry interface {
	Serve(ctx context.Context, instance string, prefixes []string, stale time.Duration) (map[string][]string, error)
	Unserve(ctx context.Context, instance string, prefixes []string) error
}

// staleAfter is how long an instance that says nothing is taken to live.
const staleAfter = 3 * pausedEvery

// serving is who serves which prefixes, this instance among them.
type serving struct {
	registry Registry
	instance string              // no two have the same
	mine     []string            // prefixes, sorted
	others   map[string][]string // by instance, each sorted
	served   atomic.Pointer[map[string]bool]
}

func newServing(registry Registry, routes *route.Table) *serving {
	s := &serving{registry: registry, instance: crand.Text()}
	for _, r := range routes.All() {
		s.mine = append(s.mine, r.Prefix)
	}
	slices.Sort(s.mine)
	s.served.Store(&map[string]bool{})
	return s
}

func (s *serving) announce(ctx context.Context) (changed bool, err error) {
	all, err := s.registry.Serve(ctx, s.instance, s.mine, staleAfter)
	if err != nil {
		return false, err
	}
	delete(all, s.instance)
	served := map[string]bool{}
	for _, list := range all {
		slices.Sort(list)
		for _, p := range list {
			served[p] = true
		}
	}
	changed = !maps.EqualFunc(all, s.others, slices.Equal[[]string])
	s.others = all
	s.served.Store(&served)
	return changed, nil
}

// byOthers reports whether another instance serves a prefix. It may be called
// from anywhere.
func (s *serving) byOthers(prefix string) bool { return (*s.served.Load())[prefix] }

// differs reports whether instances of another configuration live.
func (s *serving) differs() bool {
	for _, list := range s.others {
		if !slices.Equal(list, s.mine) {
			return true
		}
	}
	return false
}

// leave says that this instance serves no more, so that others need not wait
// until it has said nothing for long.
func (s *serving) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return s.registry.Unserve(ctx, s.instance, s.mine)
}
