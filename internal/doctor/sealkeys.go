package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/vault"
)

// sealKeys reports instances with different service keys of sealed notices.
func (r *run) sealKeys(list []fleet.Instance) {
	const check = "seal"
	list = slices.DeleteFunc(slices.Clone(list), func(x fleet.Instance) bool { return x.State == fleet.Unresponsive || x.Worker })
	r.announced = map[string]bool{}
	known, owner := map[string]string{}, map[string]string{} // the id of a name, and an instance that has it
	first := map[string][]string{}                           // the instances that wrap with a name
	other := false
	for _, x := range list {
		for _, id := range x.SealKeys {
			name := seal.NameOf(id)
			r.announced[name] = true
			if known[name] == "" {
				known[name], owner[name] = id, spell(x)
			}

			if known[name] != id {
				other = true
				r.add(Finding{Check: check, Severity: Error, Message: fmt.Sprintf("%s and %s have different service keys of the name %s", owner[name],
					spell(x), name),
					Remedy: "give all instances the same NOTIFIER_SEAL_KEYS; never use a name for another key"})
			}
		}

		if len(x.SealKeys) > 0 {
			note(first, seal.NameOf(x.SealKeys[0]), x)
		}
	}

	if len(known) == 0 {
		return
	}

	lacking := false
	for _, x := range list {
		if names := missing(x, known); len(names) > 0 {
			lacking = true
			r.add(Finding{Check: check, Severity: Warning,
				Message: fmt.Sprintf("%s does not have the service key %s, and leaves notices that need it to others", spell(x),
					strings.Join(names, ", ")),
				Remedy: "give all instances the same NOTIFIER_SEAL_KEYS; " +
					"add a new key last everywhere before it is first anywhere"})
		}
	}

	if len(first) > 1 {
		r.add(Finding{Check: check, Severity: Warning, Message: "instances encrypt new keys with different service keys (" + sorted(first) + ")",
			Remedy: "give all instances the same NOTIFIER_SEAL_KEYS in the same order, then run notifier seal --rewrap"})
	} else if !other && !lacking {
		r.add(Finding{Check: check, Severity: OK,
			Message: "all instances have the same service keys, and encrypt with " + seal.NameOf(list[0].SealKeys[0])})
	}
}

// missing returns the names of the known service keys that an instance does not have.
func missing(x fleet.Instance, known map[string]string) (names []string) {
	for name := range known {
		if !slices.ContainsFunc(x.SealKeys, func(id string) bool { return seal.NameOf(id) == name }) {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	return names
}

// sealed reports how many keys of sealed notices are under which service key.
func (r *run) sealed(ctx context.Context) {
	const check = "seal"
	under, err := vault.Count(ctx, r.wire())
	if err != nil {
		r.add(Finding{Check: check, Severity: Warning, Message: "cannot count the keys of sealed notices: " + err.Error(),
			Remedy: "run it again"})
		return
	}

	r.addHistoryKeys(ctx, under)
	if len(under) == 0 {
		return
	}

	own := []string{}
	if r.cfg.SealKeys != nil {
		own = r.cfg.SealKeys.Names()
	}

	parts := make([]string, 0, len(under))
	for _, name := range slices.Sorted(maps.Keys(under)) {
		parts = append(parts, fmt.Sprintf("%s: %d", name, under[name]))
		if !r.announced[name] && !slices.Contains(own, name) {
			r.add(Finding{Check: check, Severity: Error,
				Message: fmt.Sprintf("no running instance has the service key %s, so %s of sealed notices cannot be decrypted", name,
					notice.Count(under[name], "key")),
				Remedy: "add the service key to NOTIFIER_SEAL_KEYS of all instances; until then the notices wait"})
		}
	}

	f := Finding{Check: check, Severity: OK, Message: "keys of sealed notices by service key: " + strings.Join(parts, ", ")}
	if len(parts) > 1 {
		f.Severity, f.Remedy = Info, "to remove a service key, run notifier seal --rewrap first"
	}

	r.add(f)
}

// addHistoryKeys adds the keys in the history. The check of the history reports its errors.
func (r *run) addHistoryKeys(ctx context.Context, under map[string]int) {
	if len(r.cfg.History.URL) == 0 {
		return
	}

	db, err := history.Open(history.Options{URL: string(r.cfg.History.URL)})
	if err != nil {
		return
	}

	defer func() { _ = db.Close() }() // nothing is pending
	if has, err := db.HasKeys(ctx); !has || err != nil {
		return
	}

	list, _ := vault.CountIn(ctx, db)
	for name, n := range list {
		under[name] += n
	}
}
