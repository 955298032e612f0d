package route

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"notifier/internal/keys"
)

// Table finds the route of a key. Its routes do not change, except for the recorded ones.
type Table struct {
	routes []*Route // in the order of the configuration
	byName map[string]*Route
	own    map[string]*Route // by prefix
	// spans are own and the recorded routes, by prefix.
	spans atomic.Pointer[map[string]*Route]
}

// NewTable returns a table of routes. Their names and prefixes must be unique.
func NewTable(routes []*Route) (*Table, error) {
	t := &Table{routes: routes, byName: map[string]*Route{}, own: map[string]*Route{}}
	for _, r := range routes {
		if err := keys.CheckPrefix(r.Prefix); err != nil {
			return nil, fmt.Errorf("route %s: %w", r.Name, err)
		}
		if other := t.own[r.Prefix]; other != nil {
			return nil, fmt.Errorf("routes %s and %s both have the prefix %s", other.Name, r.Name, r.Prefix)
		}
		if t.byName[r.Name] != nil {
			return nil, fmt.Errorf("two routes are named %s", r.Name)
		}

		t.byName[r.Name], t.own[r.Prefix] = r, r
	}

	t.spans.Store(&t.own)
	return t, nil
}

// recordedTimeout is the timeout of a recorded route. No attempt of such a route is made here.
const recordedTimeout = 10 * time.Second

// SetRecorded sets the prefixes that are recorded in Redis for the handlers of workers, and that this instance does not
// handle. Match and Prefix return routes for them, whose Recorded is true. Such a route replaces a configured one of the
// same prefix, because only workers may handle its notices.
func (t *Table) SetRecorded(prefixes []string) {
	spans := maps.Clone(t.own)
	for _, p := range prefixes {
		name := p
		if t.byName[name] != nil { // a configured route may have the prefix as its name
			name += ":"
		}

		spans[p] = &Route{Name: name, Prefix: p, Target: Target{Kind: KindWorker}, Timeout: recordedTimeout, Recorded: true}
	}

	if len(prefixes) == 0 {
		t.spans.Store(&t.own)
		return
	}

	t.spans.Store(&spans)
}

// Recorded returns the prefixes of [Table.SetRecorded], in no order.
func (t *Table) Recorded() (prefixes []string) {
	for p, r := range *t.spans.Load() {
		if r.Recorded {
			prefixes = append(prefixes, p)
		}
	}

	return prefixes
}

// Match returns the route of a valid notice key; nil if no route covers it. It does not allocate.
func (t *Table) Match(key string) *Route {
	spans := *t.spans.Load()
	end := len(key)
	for range 3 {
		end = strings.LastIndexByte(key[:end], ':')
		if end < 0 {
			return nil
		}
		if r := spans[key[:end]]; r != nil {
			return r
		}
	}

	return nil
}

// SealsURL reports whether the route of a valid notice key seals the query and the fragment of urls.
func (t *Table) SealsURL(key string) bool {
	r := t.Match(key)
	return r != nil && r.SealURL
}

// IsForWorkers reports whether a notice that is stored under this instance's route r belongs to a recorded route, so
// that this instance must not deliver it. It does not allocate.
func (t *Table) IsForWorkers(r *Route, key string) bool {
	if t.spans.Load() == &t.own { // nothing is recorded
		return false
	}

	to := t.Match(key)
	return to != nil && to.Recorded && to != r
}

// Name returns the configured route with that name, or nil.
func (t *Table) Name(name string) *Route { return t.byName[name] }

// Prefix returns the route with exactly that prefix, or nil.
func (t *Table) Prefix(prefix string) *Route { return (*t.spans.Load())[prefix] }

// Configured returns the configured route with exactly that prefix, or nil.
func (t *Table) Configured(prefix string) *Route { return t.own[prefix] }

// Above returns the configured route with the longest prefix that is p or covers it; nil = none.
func (t *Table) Above(p string) *Route {
	for {
		if r := t.own[p]; r != nil {
			return r
		}

		end := strings.LastIndexByte(p, ':')
		if end < 0 {
			return nil
		}

		p = p[:end]
	}
}

// Serves reports whether this instance handles the notices under a prefix.
func (t *Table) Serves(prefix string) bool {
	r := t.Prefix(prefix)
	return r != nil && !r.Recorded
}

// NameOf returns the name of the route of a prefix; the prefix if no route has it.
func (t *Table) NameOf(prefix string) string {
	if r := t.Prefix(prefix); r != nil {
		return r.Name
	}
	return prefix
}

// All returns the configured routes in the order of the configuration.
func (t *Table) All() []*Route { return t.routes }
