package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// WorkersCheck is the check of the prefixes that are recorded for workers.
const WorkersCheck = "workers"

// workers reports who handles the prefixes that are recorded for workers, and the routes of this environment that have
// such a prefix. Later checks count their notices as those of a route.
func (r *run) workers(ctx context.Context) {
	members, err := r.conn.SMembers(ctx, r.space.Routes()).Result()
	if err != nil {
		return // reported by prefixes
	}

	recorded := store.RecordedIn(members)
	r.table.SetRecorded(recorded)
	list, err := r.heartbeats().Workers(ctx, recorded)
	if err != nil {
		r.add(Finding{Check: WorkersCheck, Severity: Warning, Message: fmt.Sprintf("cannot read which workers are running: %v", err)})
		return
	}

	for _, x := range list {
		if rt := r.table.Configured(x.Prefix); rt != nil {
			r.add(Finding{Check: WorkersCheck, Severity: Error,
				Message: fmt.Sprintf("route %s has the prefix %s, which is recorded for workers: it delivers none of its notices", rt.Name, x.Prefix),
				Remedy:  "remove the route; if no program has a handler for the prefix, notifier routes release " + x.Prefix})
		}

		pending, _, err := r.count(ctx, x.Prefix)
		f := Finding{Check: WorkersCheck}
		switch {
		case err != nil:
			f.Severity, f.Message = Error, fmt.Sprintf("cannot count the notices of prefix %s: %v", x.Prefix, err)
		case x.Workers > 0:
			f.Severity, f.Message = OK, fmt.Sprintf("prefix %s: %s", x.Prefix, notice.Count(x.Workers, "running worker"))
		case pending > 0:
			f.Severity = Error
			f.Message = fmt.Sprintf("no running worker handles prefix %s%s: %s wait", x.Prefix, since(x), notice.Count(pending, "pending notice"))
			f.Remedy = "start a program with a handler for it; if there is none any more, notifier routes release " + x.Prefix
		default:
			f.Severity, f.Message = Info, fmt.Sprintf("no running worker handles prefix %s%s; it has no pending notice", x.Prefix, since(x))
			f.Remedy = "if its handler was removed, notifier routes release " + x.Prefix
		}

		r.add(f)
	}
}

// since returns since when no worker handles a prefix; empty if that is unknown.
func since(x fleet.Recorded) string {
	if x.Handled.IsZero() {
		return ""
	}
	return " since " + x.Handled.Format("2006-01-02 15:04:05") + " UTC"
}

// handlers reports prefixes that workers handle with different settings.
func (r *run) handlers(list []fleet.Instance) {
	by := map[string]map[string][]string{} // by prefix and digest of the settings, the workers
	for _, x := range list {
		if !x.Worker || x.State == fleet.Unresponsive {
			continue
		}

		for name, digest := range x.Routes {
			prefix := cmp.Or(x.Prefixes[name], name)
			if by[prefix] == nil {
				by[prefix] = map[string][]string{}
			}

			note(by[prefix], digest, x)
		}
	}

	for _, prefix := range slices.Sorted(maps.Keys(by)) {
		if len(by[prefix]) < 2 {
			continue
		}

		var parts []string
		for _, who := range by[prefix] {
			parts = append(parts, strings.Join(who, ", "))
		}

		slices.Sort(parts)
		r.add(Finding{Check: WorkersCheck, Severity: Warning, Message: fmt.Sprintf("workers have handlers for prefix %s with different retry "+
			"delays or limits (%s)", prefix, strings.Join(parts, "; ")),
			Remedy: "each notice gets those of the worker that claims it; during a rollout the difference ends by itself"})
	}
}
