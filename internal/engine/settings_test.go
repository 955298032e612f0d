package engine

import (
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
)

// TestChangedSettingsLeaveOneEntry checks the audit while instances start: nothing for the first one, one entry for the first of two
// with another ladder, and the time of the change for all.
func TestChangedSettingsLeaveOneEntry(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	as := func(name string, r *route.Route) *world {
		return start(t, srv, newSink(16), func(o *Options) { o.Instance, o.Version = name, "v-"+name }, r, testRoute("mail", "app2"))
	}
	entries := func(w *world) (list []audit.Entry) {
		all, err := w.Audited(t.Context(), audit.Range{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if e.Action == audit.Settings {
				list = append(list, e)
			}
		}
		return list
	}
	recorded := func(w *world) {
		t.Helper()
		eventually(t, "the settings are recorded", func() bool {
			n, err := w.store.Wire().Redis.HExists(t.Context(), w.store.Space().AuditSettings(), "mail").Result()
			return err == nil && n
		})
	}
	a := as("a", testRoute("orders", "app1"))
	recorded(a)
	other := testRoute("orders", "app1")
	other.Ladder = notice.Ladder{time.Minute}
	began := time.Now().Add(-time.Minute)
	b := as("b", other)
	eventually(t, "the change has an entry", func() bool { return len(entries(a)) == 1 })
	c := as("c", other)
	eventually(t, "the third instance publishes its heartbeat", func() bool { return c.Fleet().Stats().Alive == 3 })
	changes, err := b.RouteChanges(t.Context())
	if x := changes["orders"]; err != nil || len(changes) != 1 || x.At.Before(began) || len(x.Settings) != 1 || x.Settings[0] != "ladder" ||
		x.Before != testRoute("orders", "app1").Digest() || x.After != other.Digest() {
		t.Errorf("%+v, %v", changes, err)
	}
	list := entries(c)
	want := "ladder: digest " + testRoute("orders", "app1").Digest() + " to " + other.Digest() + ", version v-b"
	if len(list) != 1 || list[0].Address != "b" || list[0].Via != audit.Start || list[0].Route != "orders" || list[0].Prefix != "app1" ||
		list[0].Detail != want {
		t.Errorf("%+v", list)
	}
}
