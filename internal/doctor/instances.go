package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// instances reports the instances and differences in their configuration.
func (r *run) instances(ctx context.Context) {
	const check = "instances"
	list, err := fleet.List(ctx, r.heartbeats())
	if err != nil {
		r.add(Finding{Check: check, Severity: Warning, Message: "cannot read the instances: " + err.Error(),
			Remedy: "another program may use " + r.space.FleetSigns() + " or " + r.space.FleetAbout() +
				"; without these keys each instance works as if it were alone"})
		return
	}

	if len(list) == 0 {
		r.add(Finding{Check: check, Severity: Info, Message: "no instance publishes heartbeats: none runs, or only versions without heartbeats"})
		return
	}

	slices.SortStableFunc(list, func(a, b fleet.Instance) int { return strings.Compare(a.Label+a.ID, b.Label+b.ID) })
	versions, limits, takeovers := map[string][]string{}, map[string][]string{}, map[string][]string{}
	for _, x := range list {
		f := Finding{Check: check, Severity: OK, Message: fmt.Sprintf("%s is %s", spell(x), stateWord(x.State))}
		if x.State == fleet.Unresponsive {
			f.Severity = Warning
			f.Message += ", last heartbeat at " + notice.Stamp(x.Seen)
			f.Remedy = "if it crashed, its entry expires soon; if it runs, see its log and check its network to Redis"
		}

		r.add(f)
		if x.State == fleet.Unresponsive || x.Version == "" && x.Label == "" {
			continue // its present configuration is not known
		}

		r.clockOf(x)
		r.outboxOf(x)
		r.lostOf(x)
		if x.Worker {
			continue // its program has other versions, and each handler its own limits
		}

		note(versions, x.Version, x)
		note(limits, x.Limits, x)
		note(takeovers, takeover(x.Takeover), x)
		if names := r.differences(x); len(names) > 0 {
			r.add(Finding{Check: check, Severity: Warning, Message: fmt.Sprintf("%s has a different configuration than this environment: route %s",
				spell(x), strings.Join(names, ", ")),
				Remedy: "give all instances the same NOTIFIER_ROUTE_… variables; during a rollout the difference ends by itself"})
		}
	}

	r.handlers(list)
	r.keySets(list)
	r.sealKeys(list)
	r.same(versions, "run different versions", "finish the rollout")
	r.same(limits, "have different NOTIFIER_LIMITS, so limits are exceeded", "set the same everywhere")
	r.same(takeovers, "have different NOTIFIER_TAKEOVER", "set the same everywhere, unless the difference is intended")
}

// stateWord returns a state in words. The states' values are those of the API.
func stateWord(s fleet.State) string {
	switch s {
	case fleet.Alive:
		return "alive"
	case fleet.Unresponsive:
		return "unresponsive"
	}
	return string(s)
}

// clockAway is the largest difference between an instance's clock and Redis's without a finding.
const clockAway = time.Second

// clockOf reports an instance whose clock differs from Redis's.
func (r *run) clockOf(x fleet.Instance) {
	f, ok := x.ReadFigures()
	d := time.Duration(f.ClockMS) * time.Millisecond
	if !ok || d.Abs() < clockAway {
		return
	}

	way := "ahead of"
	if d < 0 {
		way = "behind"
	}

	r.add(Finding{Check: "instances", Severity: Warning, Message: fmt.Sprintf("the clock of %s is %s %s that of Redis", spell(x),
		notice.Short(d.Abs()), way),
		Remedy: "synchronise both clocks (NTP): due times use Redis's clock, signatures and attempt times the " +
			"instance's, " +
			"and receivers refuse signatures that are minutes off"})
}

// outboxOf reports an instance whose finalized notices get no history entry.
func (r *run) outboxOf(x fleet.Instance) {
	if len(r.cfg.History.URL) == 0 || !x.LacksOutbox() {
		return
	}
	r.add(Finding{Check: "history", Severity: Error, Message: "the version of " + spell(x) +
		" has no history: notices that it finalizes get no entry there",
		Remedy: "update the instance"})
}

// lostOf reports the losses of data that an instance has noticed.
func (r *run) lostOf(x fleet.Instance) {
	f, _ := x.ReadFigures()
	for _, text := range f.Lost {
		r.add(Finding{Check: "data", Severity: Error, Message: text + ", reports " + spell(x),
			Remedy: "docs/runbook.md, NotifierDataLost: find out what has emptied Redis; restore a backup, or have producers send the lost " +
				"notices again"})
	}
}

// keySets reports signing keys that another instance does not publish. A receiver that fetches the key set from that
// instance cannot verify the signature.
func (r *run) keySets(list []fleet.Instance) {
	list = slices.DeleteFunc(slices.Clone(list), func(x fleet.Instance) bool { return x.State == fleet.Unresponsive || x.Routes == nil })
	published := map[string][]string{}
	for _, x := range list {
		note(published, strings.Join(x.Keys, " "), x)
		for _, y := range list {
			for _, id := range x.Signing {
				if !slices.Contains(y.Keys, id) {
					r.add(Finding{Check: "keys", Severity: Error, Message: fmt.Sprintf("%s signs with the key %s, which %s does not publish", spell(x),
						id, spell(y)),
						Remedy: "give all instances the same NOTIFIER_ROUTE_…_SIGN_KEY; put a new key at the end, restart all instances, wait 10m, and " +
							"only then put it first"})
				}
			}
		}
	}

	switch {
	case len(published) > 1:
		r.add(Finding{Check: "keys", Severity: Warning, Message: "instances publish different keys (" + sorted(published) + ")",
			Remedy: "restart all instances with the same NOTIFIER_ROUTE_…_SIGN_KEY before a new key signs"})
	case len(list) > 0 && len(list[0].Keys) > 0:
		r.add(Finding{Check: "keys", Severity: OK, Message: "all instances publish the keys " + strings.Join(list[0].Keys, ", ")})
	}
}

// differences returns the routes that an instance has configured differently from this environment; empty if this
// environment has no routes.
func (r *run) differences(x fleet.Instance) []string {
	if len(r.cfg.Routes) == 0 {
		return nil
	}

	own := map[string]string{}
	for _, rt := range r.cfg.Routes {
		own[rt.Name] = rt.Digest()
	}

	return x.Differences(own)
}

func note(m map[string][]string, value string, x fleet.Instance) {
	m[value] = append(m[value], spell(x))
}

// same warns if instances differ.
func (r *run) same(m map[string][]string, what, remedy string) {
	if len(m) < 2 {
		return
	}

	r.add(Finding{Check: "instances", Severity: Warning, Message: "instances " + what + " (" + sorted(m) + ")", Remedy: remedy})
}

// sorted returns who has which value.
func sorted(m map[string][]string) string {
	parts := make([]string, 0, len(m))
	for value, who := range m {
		parts = append(parts, fmt.Sprintf("%s: %s", cmp.Or(value, "none"), strings.Join(who, ", ")))
	}

	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// spell returns an instance's name. Its text comes from Redis, so other programs may have written it.
func spell(x fleet.Instance) string {
	if x.Label == "" {
		return fmt.Sprintf("instance %s", x.ID)
	}
	return fmt.Sprintf("instance %s (%s, version %s)", x.ID, x.Label, x.Version)
}

func takeover(ms int64) string {
	if ms == 0 {
		return "lease"
	}
	return notice.Short(time.Duration(ms) * time.Millisecond)
}

// heartbeats returns the store of the instances' heartbeats.
func (r *run) heartbeats() *fleet.Store {
	return fleet.NewStore(store.NewLayout(r.wire(), store.LayoutOptions{}))
}

func (r *run) wire() *wire.Client {
	return wire.New(wire.Options{Client: r.conn.Commander, Space: r.space, Cluster: r.conn.Masters != nil})
}
