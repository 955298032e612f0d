package doctor

import (
	"context"
	"fmt"

	"notifier/internal/receivers"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// rulePauses reports receivers that are paused by a rule, or for a client, that the configuration has no more.
func (r *run) rulePauses(ctx context.Context) {
	w := wire.New(wire.Options{Client: r.conn.Commander, Space: r.space, Cluster: r.conn.Masters != nil})
	holds := receivers.NewHolds(store.NewLayout(w, store.LayoutOptions{}))
	holds.Owners = r.cfg.Owners()
	table, err := holds.Read(ctx)
	if err != nil {
		r.add(Finding{Check: "receivers", Severity: Error, Message: "cannot read the paused receivers: " + err.Error()})
		return
	}

	for _, p := range table.Pauses() {
		if p.Rule == "" || p.Resumed {
			continue
		}

		why := "which its route does not have any more"
		if rt := r.table.Above(p.Prefix); p.RuleOf(rt) {
			if !holds.Unowned(rt, p) {
				continue
			}

			why = "but no client has this prefix any more, so the pause holds no notice"
		}

		which := "--host " + p.Host
		if p.Audience != "" {
			which += " --audience " + p.Audience
		}

		r.add(Finding{Check: "receivers", Severity: Warning, Message: fmt.Sprintf(
			"%s under %s is paused by the rule %s, %s", p.Host, p.Prefix, p.Rule, why),
			Remedy: "notifier resume " + which + " --prefix " + p.Prefix})
	}
}
