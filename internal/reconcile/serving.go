package reconcile

import (
	"context"
	crand "crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Registry stores which instance serves which prefixes.
type Registry interface {
	Serve(ctx context.Context, instance string, prefixes []string, stale time.Duration) (map[string][]string, error)
	Unserve(ctx context.Context, instance string, prefixes []string) error
}

// serving records which instances serve which prefixes, and publishes this instance's own.
type serving struct {
	registry Registry
	instance string              // unique per process
	mine     []string            // sorted prefixes of this instance
	others   map[string][]string // by instance, each sorted
	served   atomic.Pointer[map[string]bool]
}

func newServing(registry Registry, routes *route.Table) *serving {
	s := &serving{registry: registry, instance: crand.Text()}
	for _, r := range routes.All() {
		s.mine = append(s.mine, r.Prefix)
		for _, m := range OrderedMembers(r) {
			s.mine = append(s.mine, m+orderMark)
		}

		if r.Target.Kind == route.KindWorker {
			s.mine = append(s.mine, r.Prefix+fleet.WorkerMark)
		}
	}

	slices.Sort(s.mine)
	s.served.Store(&map[string]bool{})
	return s
}

// announce publishes this instance's prefixes and reads those of the others. It reports whether the
// others' have changed.
func (s *serving) announce(ctx context.Context) (changed bool, err error) {
	all, err := s.registry.Serve(ctx, s.instance, s.mine, fleet.StaleAfter)
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

// orderMark is the end of an entry that says that an instance has a prefix ordered. No prefix has it.
const orderMark = "=ordered"

// OrderedMembers returns the members of notifier:ordered for a route; none if it is not ordered.
func OrderedMembers(r *route.Route) []string {
	switch r.Order {
	case route.OrderSkip:
		return []string{r.Prefix}
	case route.OrderBlock:
		return []string{r.Prefix, r.Prefix + store.Blocks}
	default:
		return nil
	}
}

// ordered returns the members of notifier:ordered that this instance or another alive one has
// configured.
func (s *serving) ordered() (members []string) {
	lists := append(slices.Collect(maps.Values(s.others)), s.mine)
	for _, list := range lists {
		for _, entry := range list {
			if m, ok := strings.CutSuffix(entry, orderMark); ok {
				members = append(members, m)
			}
		}
	}

	return members
}

// handled reports whether another instance has a handler for a prefix. It is safe for concurrent use.
func (s *serving) handled(prefix string) bool { return (*s.served.Load())[prefix+fleet.WorkerMark] }

// byOthers reports whether another instance serves a prefix. It is safe for concurrent use.
func (s *serving) byOthers(prefix string) bool { return (*s.served.Load())[prefix] }

// differs reports whether an instance of another configuration is alive.
func (s *serving) differs() bool {
	for _, list := range s.others {
		if !slices.Equal(list, s.mine) {
			return true
		}
	}

	return false
}

// leave removes this instance's prefixes, so that the others need not wait until they are stale.
func (s *serving) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return s.registry.Unserve(ctx, s.instance, s.mine)
}
