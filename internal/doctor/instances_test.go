package doctor

import (
	"encoding/json"
	"testing"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func TestInstancesReportsDifferentConfiguration(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	examine(t, cfg, Options{}).says(t, "instances", Info, "no instance publishes heartbeats")
	st := store.New(store.Options{Client: s.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	beat := func(id string, a fleet.About) {
		t.Helper()
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fleet.NewStore(st.Layout).Publish(t.Context(), fleet.Heartbeat{ID: id, About: string(text)}); err != nil {
			t.Fatal(err)
		}
	}
	mine := map[string]string{"orders": cfg.Routes[0].Digest()}
	beat("aaaaaaaaaaaa", fleet.About{Label: "web-1", Version: "v1", Takeover: 3000, Limits: "fleet", Routes: mine})
	r := examine(t, cfg, Options{})
	r.says(t, "instances", OK, "instance aaaaaaaaaaaa (web-1, version v1) is alive")
	if r.Errors+r.Warnings > 0 {
		t.Errorf("an instance with the same configuration is reported:\n%s", r.text())
	}
	beat("bbbbbbbbbbbb", fleet.About{Label: "web-2", Version: "v2", Limits: "instance", Routes: map[string]string{"orders": "x", "new": "y"}})
	r = examine(t, cfg, Options{})
	r.says(t, "instances", Warning, "web-2, version v2) has a different configuration than this environment: route new, orders")
	r.says(t, "instances", Warning, "run different versions (v1: instance aaaaaaaaaaaa (web-1, version v1); v2:")
	r.says(t, "instances", Warning, "different NOTIFIER_LIMITS")
	r.says(t, "instances", Warning, "have different NOTIFIER_TAKEOVER (3s: ")
	for ms, want := range map[int64]string{-2500: "the clock of instance cccccccccccc (web-3, version v1) is 2.5s behind that of Redis",
		61_000: "the clock of instance cccccccccccc (web-3, version v1) is 1m1s ahead of that of Redis"} {
		figures, err := json.Marshal(fleet.Figures{ClockMS: ms})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fleet.NewStore(st.Layout).Publish(t.Context(), fleet.Heartbeat{ID: "cccccccccccc", About: `{"label":"web-3","version":"v1"}`,
			Figures: string(figures)}); err != nil {
			t.Fatal(err)
		}
		examine(t, cfg, Options{}).says(t, "instances", Warning, want)
	}
	if err := s.Client().Set(t.Context(), "notifier:{fleet}:signs", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	examine(t, cfg, Options{}).says(t, "instances", Warning, "another program may use notifier:{fleet}:signs")
}

// Receivers may fetch the key set from any instance, so each must publish every signing key.
func TestKeySetsReportUnpublishedSigningKey(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	st := store.New(store.Options{Client: s.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	beat := func(id string, signing string, ids ...string) {
		t.Helper()
		text, err := json.Marshal(fleet.About{Label: "web", Version: "v1", Takeover: 3000, Limits: "fleet", Keys: ids, Signing: []string{signing},
			Routes: map[string]string{"orders": cfg.Routes[0].Digest()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fleet.NewStore(st.Layout).Publish(t.Context(), fleet.Heartbeat{ID: id, About: string(text)}); err != nil {
			t.Fatal(err)
		}
	}
	beat("aaaaaaaaaaaa", "old", "old")
	examine(t, cfg, Options{}).says(t, "keys", OK, "all instances publish the keys old")
	beat("bbbbbbbbbbbb", "old", "new", "old")
	r := examine(t, cfg, Options{})
	r.says(t, "keys", Warning, "publish different keys (new old: instance bbbbbbbbbbbb")
	if r.Errors > 0 {
		t.Errorf("an unpublished key that does not sign yet is an error:\n%s", r.text())
	}
	beat("bbbbbbbbbbbb", "new", "new", "old")
	examine(t, cfg, Options{}).says(t, "keys", Error,
		"instance bbbbbbbbbbbb (web, version v1) signs with the key new, which instance aaaaaaaaaaaa (web, version v1) does not publish")
	beat("aaaaaaaaaaaa", "old", "new", "old")
	examine(t, cfg, Options{}).says(t, "keys", OK, "all instances publish the keys new, old")
}
