package doctor

import (
	"encoding/json"
	"slices"
	"testing"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// of returns the findings of one check.
func (r *Report) of(check string) *Report {
	return &Report{Findings: slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Check != check })}
}

func TestSealKeysReportDifferentServiceKeys(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	st := store.New(store.Options{Client: s.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	abouts := map[string]string{}
	beat := func(id string, worker bool, ids ...string) {
		t.Helper()
		text, err := json.Marshal(fleet.About{Label: "web", Version: "v1", Takeover: 3000, Limits: "fleet", Worker: worker, SealKeys: ids,
			Routes: map[string]string{"orders": cfg.Routes[0].Digest()}})
		if err != nil {
			t.Fatal(err)
		}
		abouts[id] = string(text)
	}
	look := func() *Report {
		t.Helper()
		for id, about := range abouts { // none becomes unresponsive on a slow machine
			if _, err := fleet.NewStore(st.Layout).Publish(t.Context(), fleet.Heartbeat{ID: id, About: about}); err != nil {
				t.Fatal(err)
			}
		}
		return examine(t, cfg, Options{}).of("seal")
	}
	beat("aaaaaaaaaaaa", false)
	beat("bbbbbbbbbbbb", false)
	only := func(r *Report, n int) {
		t.Helper()
		if len(r.Findings) != n {
			t.Errorf("%d findings, want %d:\n%s", len(r.Findings), n, r.text())
		}
	}
	only(look(), 0)
	beat("aaaaaaaaaaaa", false, "old:AAAAAAAA")
	look().says(t, "seal", Warning, "instance bbbbbbbbbbbb (web, version v1) does not have the service key old")
	beat("bbbbbbbbbbbb", false, "old:AAAAAAAA")
	beat("cccccccccccc", true)
	r := look()
	r.says(t, "seal", OK, "all instances have the same service keys, and encrypt with old")
	only(r, 1)
	beat("bbbbbbbbbbbb", false, "old:AAAAAAAA", "new:BBBBBBBB")
	r = look()
	r.says(t, "seal", Warning, "instance aaaaaaaaaaaa (web, version v1) does not have the service key new")
	only(r, 1)
	beat("aaaaaaaaaaaa", false, "new:BBBBBBBB", "old:AAAAAAAA")
	look().says(t, "seal", Warning, "instances encrypt new keys with different service keys (new: instance aaaaaaaaaaaa")
	beat("bbbbbbbbbbbb", false, "new:CCCCCCCC", "old:AAAAAAAA")
	look().says(t, "seal", Error,
		"instance aaaaaaaaaaaa (web, version v1) and instance bbbbbbbbbbbb (web, version v1) have different service keys of the name new")
}

func TestSealedReportsKeysByServiceKey(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	w := wire.New(wire.Options{Client: s.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	put := func(name, audience string) *seal.ServiceKeys {
		t.Helper()
		k := testkit.ServiceKeys(t, name)
		if err := vault.New(k, w).Seal(t.Context(), 0, seal.AudienceSubject(audience), "app1:m:t:1", &notice.Content{}); err != nil {
			t.Fatal(err)
		}
		return k
	}
	if r := examine(t, cfg, Options{}).of("seal"); len(r.Findings) > 0 {
		t.Errorf("without sealed notices:\n%s", r.text())
	}
	cfg.SealKeys = put("old", "a")
	if r := examine(t, cfg, Options{}).of("seal"); len(r.Findings) != 1 {
		t.Errorf("one service key:\n%s", r.text())
	} else {
		r.says(t, "seal", OK, "keys of sealed notices by service key: old: 2")
	}
	put("new", "b")
	r := examine(t, cfg, Options{})
	r.says(t, "seal", Error, "no running instance has the service key new, so 2 keys of sealed notices cannot be decrypted")
	r.says(t, "seal", Info, "new: 2, old: 2 to remove a service key, run notifier seal --rewrap first")
}
