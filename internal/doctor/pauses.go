package doctor

import (
	"context"
	"fmt"

	"notifier/internal/receivers"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// rulePauses reports receivers that are paused by a rule that the configuration has no more.
func (r *run) rulePauses(ctx context.Context) {
	w := wire.New(wire.Options{Client: r.conn.Commander, Space: r.space, Cluster: r.conn.Masters != nil})
	table, err := receivers.NewHolds(store.NewLayout(w, store.LayoutOptions{})).Read(ctx)
	if err != nil {
		r.add(Finding{Check: "receivers", Severity: Error, Message: "cannot read the paused receivers: " + err.Error()})
		return
	}

	for _, p := range table.Pauses() {
		if p.Rule == "" || p.Resumed || p.RuleOf(r.table.Above(p.Prefix)) {
			continue
		}

		which := "--host " + p.Host
		if p.Audience != "" {
			which += " --audience " + p.Audience
		}

		r.add(Finding{Check: "receivers", Severity: Warning, Message: fmt.Sprintf(
			"%s under %s is paused by the rule %s, which its route does not have any more", p.Host, p.Prefix, p.Rule),
			Remedy: "notifier resume " + which + " --prefix " + p.Prefix})
	}
}
