package config

import (
	"errors"
	"strings"
	"testing"

	"notifier/internal/seal"
	"notifier/internal/testkit"
)

func TestSealIsRefusedWhereClearTextWouldStay(t *testing.T) {
	keys := "SEAL_KEYS=" + testkit.SealKeys("2026-11")
	_, key, _ := strings.Cut(testkit.SealKeys("2026-11"), "=")
	c, err := load(with(keys, "ROUTE_ORDERS_SEAL=audience"))
	if err != nil || c.Routes[0].Seal != seal.PerAudience || c.SealKeys.Names()[0] != "2026-11" {
		t.Fatal(err)
	}
	if said := strings.Join(Describe(c), "\n"); !strings.Contains(said, "sealed with a key for each audience") || strings.Contains(said, key) {
		t.Error(said)
	}

	for _, x := range []struct {
		want string
		set  []string
	}{
		{"needs NOTIFIER_SEAL_KEYS", []string{"ROUTE_ORDERS_SEAL=route"}},
		{"want route, audience or id", []string{keys, "ROUTE_ORDERS_SEAL=yes"}},
		{"cannot be combined with ADOPT", []string{keys, "ROUTE_ORDERS_SEAL=id", "ROUTE_ORDERS_ADOPT=true"}},
		{"SEAL_ENTRIES=\"yes\": want sealed or open", []string{keys, "ROUTE_ORDERS_SEAL=id", "ROUTE_ORDERS_TARGET=log",
			"ROUTE_ORDERS_SEAL_ENTRIES=yes"}},
		{"is for the targets list, stream and log", []string{keys, "ROUTE_ORDERS_SEAL=id", "ROUTE_ORDERS_SEAL_ENTRIES=open"}},
		{"ROUTE_ORDERS_SEAL_URL=\"true\": needs SEAL of the same route", []string{keys, "ROUTE_ORDERS_TARGET=notice",
			"ROUTE_ORDERS_SEAL_URL=true"}},
		{"SEAL_URL=\"1\": is for the target notice; remove it, with the target url", []string{keys, "ROUTE_ORDERS_SEAL=id",
			"ROUTE_ORDERS_SEAL_URL=1"}},
		{"SEAL_URL=\"perhaps\": want true or false", []string{keys, "ROUTE_ORDERS_SEAL=id", "ROUTE_ORDERS_SEAL_URL=perhaps"}},
		{"NOTIFIER_SEAL_KEYS: (not shown) entry 1 has no valid name", []string{"SEAL_KEYS=" + hidden}},
		{"NOTIFIER_SEAL_KEYS: (not shown) the key a has 24 bytes", []string{"SEAL_KEYS=a=" + hidden, "ROUTE_ORDERS_SEAL=id"}},
	} {
		_, err := load(with(x.set...))
		var list Errors
		if !errors.As(err, &list) || len(list) != 1 || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), hidden) {
			t.Errorf("%q: %v", x.set, err)
		}
	}
}

func TestQueriesAreSealedIfTheRouteSaysSo(t *testing.T) {
	key := "SEAL_KEYS=" + testkit.SealKeys("k")
	for set, want := range map[string]bool{"": false, "false": false, "true": true} {
		c, err := load(with(key, "ROUTE_ORDERS_TARGET=notice", "ROUTE_ORDERS_SEAL=route", "ROUTE_ORDERS_SEAL_URL="+set))
		if err != nil || c.Routes[0].SealURL != want {
			t.Errorf("%q: %v", set, err)
			continue
		}
		if said := strings.Join(Describe(c), "\n"); strings.Contains(said, "also the queries of urls") != want {
			t.Errorf("%q: %s", set, said)
		}
	}
}

// A route that has sealed notices from before may have the setting without SEAL.
func TestEntriesOfSealedNoticesAreSealedByDefault(t *testing.T) {
	key := "SEAL_KEYS=" + testkit.SealKeys("k")
	for _, target := range []string{"list:todo", "stream:todo", "log"} {
		for _, x := range []struct {
			set  []string
			open bool
		}{
			{nil, false}, {[]string{"ROUTE_ORDERS_SEAL_ENTRIES=sealed"}, false}, {[]string{"ROUTE_ORDERS_SEAL_ENTRIES=open"}, true},
		} {
			set := append([]string{key, "ROUTE_ORDERS_TARGET=" + target, "ROUTE_ORDERS_SEAL=route"}, x.set...)
			c, err := load(with(set...))
			if err != nil || c.Routes[0].KeepsSealed() == x.open {
				t.Errorf("%q: %v", set, err)
				continue
			}
			if said := strings.Join(Describe(c), "\n"); strings.Contains(said, "clear text") != x.open {
				t.Errorf("%q: %s", set, said)
			}
		}
	}
	if c, err := load(with("ROUTE_ORDERS_TARGET=log", "ROUTE_ORDERS_SEAL_ENTRIES=open")); err != nil || c.Routes[0].KeepsSealed() {
		t.Error(err)
	}
	if c, err := load(with(key, "ROUTE_ORDERS_SEAL=route")); err != nil || c.Routes[0].KeepsSealed() {
		t.Error(err)
	}
}
