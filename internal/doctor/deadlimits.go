package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// deadLimits announces the removal of dead letters of routes with a limit, and says where it is final or does not happen.
func (r *run) deadLimits(ctx context.Context) {
	s := store.New(store.Options{Client: r.conn.Commander, Space: r.space, Cluster: r.conn.Masters != nil})
	limited := func(rt *route.Route) bool { return rt.DeadRetention > 0 || rt.DeadKeep > 0 }
	if !slices.ContainsFunc(r.cfg.Routes, limited) {
		return
	}

	_, lost, _, on := r.outboxState(ctx, s)
	now, err := s.Wire().Now(ctx)
	if r.heard(err) != nil {
		return
	}

	for _, rt := range r.cfg.Routes {
		if !limited(rt) {
			continue
		}

		got, err := s.DeadCauses(ctx, []string{rt.Prefix}, time.Time{})
		if r.heard(err) != nil {
			return
		}

		r.deadLimit(rt, got, now)
		switch {
		case len(r.cfg.History.URL) == 0 && !on:
			r.deadFinding(Info, fmt.Sprintf("route %s removes dead letters without a history: the removal is final", rt.Name),
				"set NOTIFIER_HISTORY_URL to keep an entry of each")
		case lost > 0:
			r.deadFinding(Warning, fmt.Sprintf("entries of the history were dropped, so no dead letter of route %s is removed", rt.Name),
				"inspect them, and remove them with notifier purge")
		case r.cfg.History.Bodies != "keep" && len(r.cfg.History.URL) > 0:
			r.deadFinding(Info, fmt.Sprintf("route %s removes dead letters, and the history keeps no bodies: the removal of bodies is final",
				rt.Name), "NOTIFIER_HISTORY_BODIES=keep keeps them")
		}
	}
}

// deadLimit announces the removal of a route's dead letters.
func (r *run) deadLimit(rt *route.Route, got store.DeadCount, now time.Time) {
	limit := store.DeadLimit{Retention: rt.DeadRetention, Keep: rt.DeadKeep}
	name := route.EnvName(rt.Name)
	count, first := got.Sum()
	if at := limit.Ages(first, now); !at.IsZero() {
		r.deadFinding(Info, fmt.Sprintf("route %s removes dead letters that are older than %s, the first at %s UTC", rt.Name,
			notice.Short(rt.DeadRetention), at.UTC().Format(time.DateTime)),
			fmt.Sprintf("redrive or download those that are still needed, or raise NOTIFIER_ROUTE_%s_DEAD_RETENTION", name))
	}

	if limit.Fills(count) {
		r.deadFinding(Info, fmt.Sprintf("route %s has %s of at most %s: above that the oldest are removed", rt.Name,
			notice.Count(count, "dead letter"), strconv.FormatInt(rt.DeadKeep, 10)),
			fmt.Sprintf("redrive or download those that are still needed, or raise NOTIFIER_ROUTE_%s_DEAD_KEEP", name))
	}
}

func (r *run) deadFinding(severity Severity, message, remedy string) {
	r.add(Finding{Check: "dead letters", Severity: severity, Message: message, Remedy: remedy})
}
