package doctor

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"notifier/internal/config"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// The doctor reports what only running instances can notice: lost data, and a history that cannot be written.
func TestDoctorReportsWhatInstancesPublish(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	cfg.History = config.History{URL: config.Secret("sqlite://" + filepath.Join(t.TempDir(), "history.db")), Bodies: "keep", Backlog: 1000}
	st := store.New(store.Options{Client: s.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	figures, err := json.Marshal(fleet.Figures{Outbox: true, Lost: []string{"Redis no longer has this service's data"},
		Unwritten: "disk is full"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.NewStore(st.Layout).Publish(t.Context(), fleet.Heartbeat{ID: "aaaaaaaaaaaa", About: `{"label":"web","version":"v1"}`,
		Figures: string(figures)}); err != nil {
		t.Fatal(err)
	}
	r := examine(t, cfg, Options{})
	r.says(t, "data", Error, "Redis no longer has this service's data, reports instance aaaaaaaaaaaa (web, version v1)")
	r.says(t, "history", OK, "waiting for the database: 0 finalized notices")
	entry := fmt.Sprintf(`d %d app1 - app1:a:b:1 {"due":1763740800000,"made":185903985000000}`, time.Now().UnixMicro())
	if err := s.Client().RPush(t.Context(), "notifier:{0}:ended", entry).Err(); err != nil {
		t.Fatal(err)
	}
	examine(t, cfg, Options{}).says(t, "history", Error,
		"waiting for the database: 1 finalized notice; instance aaaaaaaaaaaa (web, version v1) cannot write to it: disk is full")
}
