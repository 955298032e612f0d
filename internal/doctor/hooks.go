package doctor

import (
	"context"
	"fmt"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// hooks suggests a dead-letter hook for routes with retries, dead letters and none. A route that is the hook of another
// one cannot have a hook.
func (r *run) hooks(ctx context.Context) {
	const check = "dead letters"
	is := map[string]bool{}
	for _, rt := range r.cfg.Routes {
		if rt.OnDead != nil {
			is[rt.OnDead.Name] = true
		}
	}

	for _, rt := range r.cfg.Routes {
		if len(rt.Ladder) == 0 || rt.OnDead != nil || is[rt.Name] {
			continue
		}

		_, dead, err := r.count(ctx, rt.Prefix)
		if err != nil {
			r.add(Finding{Check: check, Severity: Error, Message: fmt.Sprintf("cannot count the dead letters of route %s: %v", rt.Name, err)})
			return
		}

		if dead == 0 {
			continue
		}

		r.add(Finding{Check: check, Severity: Info,
			Message: fmt.Sprintf("route %s has %s and no ON_DEAD: no business system learns of them", rt.Name, notice.Count(dead, "dead letter")),
			Remedy: fmt.Sprintf("NOTIFIER_ROUTE_%s_ON_DEAD names a route that gets a notice of each (docs/callbacks.md, Dead-letter hooks)",
				route.EnvName(rt.Name))})
	}
}
