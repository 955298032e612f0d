package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"notifier/internal/keys"
)

// Recorded prefixes. A worker is a program with handlers for notices. Before it claims anything, it records the prefixes
// of its handlers among the prefixes of each shard. Other instances then match keys against these prefixes, too, and do
// not claim the notices under them. A record stays when the worker ends, until an operator releases the prefix.
//
// A record is a member of the shard's set of prefixes: "<prefix>=<n>:worker", or "<prefix>=<n>:" for a released prefix.
// The member of a prefix with the highest n is valid. So the set only grows, as the instances that learn from each other
// require, and the state of the shard (guard.lua) covers the records: a script of an instance that does not know a record
// is refused, and the instance reads the records before it sends the script again.

// forWorkers is the target in the record of a prefix that workers handle.
const forWorkers = "worker"

// ErrForWorkers is returned for claims and moves of notices that only workers may handle. It is returned before a script
// is sent.
var ErrForWorkers = errors.New("the prefix is recorded for workers, and this instance has no handler for it")

// Errors of the release of a prefix.
var (
	ErrNotRecorded = errors.New("the prefix is not recorded")
	ErrHandled     = errors.New("a running worker handles the prefix; stop it first, or wait 15 s after it was killed")
)

// record is a parsed member.
type record struct {
	prefix, target string
	n              int
}

// String returns the member.
func (r record) String() string { return r.prefix + "=" + strconv.Itoa(r.n) + ":" + r.target }

// parseRecord parses a member. ok is false if it is a plain prefix, or anything else.
func parseRecord(member string) (r record, ok bool) {
	prefix, rest, _ := strings.Cut(member, "=")
	n, target, ok := strings.Cut(rest, ":")
	if !ok || keys.CheckPrefix(prefix) != nil || target != forWorkers && target != "" {
		return r, false
	}

	r.prefix, r.target = prefix, target
	var err error
	r.n, err = strconv.Atoi(n)
	return r, err == nil && r.n > 0
}

// recordsOf returns the valid record of each prefix. If two members have the same number, the one for workers is valid.
func recordsOf(members []string) map[string]record {
	out := map[string]record{}
	for _, m := range members {
		r, ok := parseRecord(m)
		if !ok {
			continue
		}

		if was := out[r.prefix]; r.n > was.n || r.n == was.n && r.target == forWorkers {
			out[r.prefix] = r
		}
	}

	return out
}

// RecordedIn returns the sorted prefixes that the members of notifier:routes record for workers.
func RecordedIn(members []string) (prefixes []string) {
	for p, r := range recordsOf(members) {
		if r.target == forWorkers {
			prefixes = append(prefixes, p)
		}
	}

	slices.Sort(prefixes)
	return prefixes
}

// registrable reports whether a member of notifier:routes may be registered in a shard.
func registrable(member string) bool {
	_, ok := parseRecord(member)
	return ok || keys.CheckPrefix(member) == nil
}

// barePrefixes returns the members that are prefixes.
func barePrefixes(members []string) []string {
	return slices.DeleteFunc(slices.Clone(members), func(m string) bool {
		_, ok := parseRecord(m)
		return ok
	})
}

// unrecorded returns the records that this instance has to add to members, for the prefixes that it handles.
func (s *Layout) unrecorded(members []string) (add []string) {
	if len(s.o.Handles) == 0 {
		return nil
	}

	now := recordsOf(members)
	for _, p := range s.o.Handles {
		if r := now[p]; r.target != forWorkers {
			add = append(add, record{prefix: p, target: forWorkers, n: r.n + 1}.String())
		}
	}

	return add
}

// setRecorded sets which prefixes are recorded, for an instance that handles some of them.
func (v *LayoutView) setRecorded(handles []string) {
	v.recorded = RecordedIn(v.members)
	for _, p := range v.recorded {
		if !slices.Contains(handles, p) {
			if v.foreign == nil {
				v.foreign = map[string]bool{}
			}

			v.foreign[p] = true
		}
	}
}

// tellRecorded passes the recorded prefixes that this instance does not handle to the Watcher. It is called before a view
// is used, so that no call sent with the view uses older routes.
func (s *Layout) tellRecorded(was, now *LayoutView) {
	if was == nil && len(now.foreign) == 0 || was != nil && maps.Equal(was.foreign, now.foreign) {
		return
	}

	s.o.Watcher.RecordedChanged(slices.Sorted(maps.Keys(now.foreign)))
}

// Recorded returns the prefixes that are recorded for workers.
func (s *Layout) Recorded() []string {
	if v := s.view.Load(); v != nil {
		return v.recorded
	}
	return nil
}

// Members returns the registered prefixes and their records, as another layout takes them in LayoutOptions.Prefixes.
func (s *Layout) Members() []string {
	if v := s.view.Load(); v != nil {
		return v.members
	}
	return nil
}

// Release ends the record of a prefix. Its notices then belong to the route that matches their keys. A worker that
// handles the prefix records it again with its next call: the caller checks that there is none.
func (s *Layout) Release(ctx context.Context, prefix string) error {
	if err := s.Known(ctx); err != nil {
		return err
	}

	r := recordsOf(s.Members())[prefix]
	if r.target != forWorkers {
		return fmt.Errorf("%s: %w", prefix, ErrNotRecorded)
	}

	r.n, r.target = r.n+1, ""
	if err := s.c.SAdd(ctx, s.space.Routes(), r.String()).Err(); err != nil {
		return s.w.Fail("release", err)
	}

	return s.Learn(ctx) // each shard takes the missing members of notifier:routes
}
