package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// withSealed returns a command line with the service keys new and old, on a Redis that has the keys of n subjects under old.
func withSealed(t *testing.T, n int) (*testCLI, *testkit.Redis) {
	t.Helper()
	d, srv, _ := onRedis(t)
	d.env = append(d.env, "NOTIFIER_SEAL_KEYS="+testkit.SealKeys("new", "old"))
	w := wire.New(wire.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}})
	v := vault.New(testkit.ServiceKeys(t, "old"), w)
	for i := range n {
		if err := v.Seal(t.Context(), 0, seal.AudienceSubject(string(rune('a'+i))), "app1:m:t:1", &notice.Content{}); err != nil {
			t.Fatal(err)
		}
	}
	return d, srv
}

func TestSealCommandRewraps(t *testing.T) {
	t.Parallel()
	d, _ := withSealed(t, 3)
	out, _ := d.run(0, "seal", "--rewrap", "--dry-run")
	contains(t, out, "6 keys to be encrypted with new", "6 keys under old")
	out, _ = d.run(0, "seal", "--rewrap")
	contains(t, out, "6 keys encrypted with new", "6 keys under new", "no key needs old any more, except those in backups")
	out, _ = d.run(0, "seal", "--rewrap", "--json")
	contains(t, out, `"rewrapped": 0`, `"new": 6`)

	d.env = append(d.env, "NOTIFIER_SEAL_KEYS="+testkit.SealKeys("next"))
	out, errs := d.run(1, "seal", "--rewrap")
	contains(t, out, "0 keys encrypted with next", "6 keys under new, which NOTIFIER_SEAL_KEYS does not have")
	contains(t, errs, "6 keys left under other service keys")
	if strings.Contains(out+errs, testkit.SealKeys("next")[5:]) {
		t.Error("a key is printed")
	}

	_, errs = d.run(2, "seal")
	contains(t, errs, "want --rewrap")
	_, errs = d.run(2, "seal", "--rewrap", "--rate", "0")
	contains(t, errs, "--rate: want a rate")
	d.env = append(d.env, "NOTIFIER_SEAL_KEYS=")
	_, errs = d.run(2, "seal", "--rewrap")
	contains(t, errs, "NOTIFIER_SEAL_KEYS is not set")
}

func TestSealCommandRewrapsTheHistory(t *testing.T) {
	t.Parallel()
	d, srv := withSealed(t, 2)
	url := "sqlite://" + t.TempDir() + "/history.db"
	d.env = append(d.env, "NOTIFIER_HISTORY_URL="+url)
	out, _ := d.run(0, "seal", "--rewrap", "--dry-run") // no instance has created the history yet
	contains(t, out, "4 keys under old")

	db, err := history.Open(history.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	fields, err := srv.Client().HGetAll(t.Context(), keys.Space{Namespace: srv.Namespace(), Shards: 1}.Seals(0)).Result()
	if err != nil {
		t.Fatal(err)
	}
	var rows []history.Row
	for id := range fields {
		if seal.IsKeyID(id) {
			text := "s1c:" + id + ":" + strings.Repeat("A", 60)
			rows = append(rows, history.Row{Outcome: notice.EndDelivered, Number: 1, Ended: time.Now(), BodySize: -1, BodyKept: true,
				Notice: &notice.Notice{Key: "app1:m:t:" + id, Made: 1, Due: time.Now(), Content: notice.Content{Sealed: text}}})
		}
	}
	db.KeepKeys(func(context.Context, int, []string) (map[string]string, error) { return fields, nil })
	if _, err := db.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	had := len(fields) // the fields of subjects are copied too here, as digest keys
	if _, err := db.ForgetKeys(t.Context(), seal.AudienceSubject("z"), vault.Forgotten{At: time.Now()}); err != nil {
		t.Fatal(err)
	}

	out, _ = d.run(0, "seal", "--rewrap")
	contains(t, out, fmt.Sprint(4+had, " keys encrypted with new"), fmt.Sprint(4+had, " keys under new"),
		fmt.Sprint(had, " keys of them in the history"), "no key needs old any more")
	under, err := vault.CountIn(t.Context(), db)
	if err != nil || len(under) != 1 || under["new"] != had {
		t.Errorf("%v, %v", under, err)
	}
	out, _ = d.run(0, "seal", "--rewrap", "--json")
	contains(t, out, `"rewrapped": 0`, fmt.Sprintf(`"in_history": %d`, had))
}

func TestSealCommandIsRefusedWhileAnInstanceLacksTheKey(t *testing.T) {
	t.Parallel()
	d, srv := withSealed(t, 1)
	st := store.New(store.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}})
	beat := func(id, label string, list string) {
		t.Helper()
		about := fleet.About{Label: label}
		if list != "" {
			k, err := seal.ParseServiceKeys(list)
			if err != nil {
				t.Fatal(err)
			}
			about.SealKeys = k.IDs()
		}
		text, err := json.Marshal(about)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fleet.NewStore(st.Layout).Publish(t.Context(), fleet.Heartbeat{ID: id, About: string(text)}); err != nil {
			t.Fatal(err)
		}
	}
	beat("aaaaaaaaaaaa", "web-1", testkit.SealKeys("old", "new"))
	beat("bbbbbbbbbbbb", "web-2", testkit.SealKeys("old"))
	beat("cccccccccccc", "web-3", testkit.SealKeys("old")+","+testkit.OtherSealKey("new"))
	beat("dddddddddddd", "without", "")
	_, errs := d.run(1, "seal", "--rewrap")
	contains(t, errs, "do not have the service key new", "web-2 (bbbbbbbbbbbb)", "web-3 (cccccccccccc)")
	if strings.Contains(errs, "web-1") || strings.Contains(errs, "without (") {
		t.Errorf("%s", errs)
	}
	out, errs := d.run(0, "seal", "--rewrap", "--dry-run")
	contains(t, out, "2 keys to be encrypted with new", "2 keys under old")
	contains(t, errs, "without --dry-run: refused")
	beat("bbbbbbbbbbbb", "web-2", testkit.SealKeys("old", "new"))
	beat("cccccccccccc", "web-3", testkit.SealKeys("old", "new"))
	out, _ = d.run(0, "seal", "--rewrap")
	contains(t, out, "2 keys encrypted with new")
}
