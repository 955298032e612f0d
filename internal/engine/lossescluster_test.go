package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
)

// A master of a cluster that lost its data is reported for each of its shards, with the notices that were pending there,
// whether or not it had notifier:meta. The notices of the other master stay.
func TestEmptiedMasterIsReportedForItsShards(t *testing.T) {
	t.Parallel()
	for name, withMeta := range map[string]bool{"with notifier:meta": true, "without notifier:meta": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := testkit.StartCluster(t, 8191)
			core, logs := logged.New(zap.ErrorLevel)
			w := startClusterWith(t, a, 4, func(o *Options) {
				o.Handler, o.Logger, o.Metrics = newSink(100), zap.New(core), telemetry.NewMetrics(telemetry.MetricsOptions{})
			}, testRoute("r", "app1"))
			w.put(t, 40, func(i int) store.Request { return store.Request{Key: key(i), Delay: time.Hour} })
			if err := w.countPending(t.Context()); err != nil {
				t.Fatal(err)
			}
			by, err := w.store.CountPending(t.Context())
			if err != nil {
				t.Fatal(err)
			}

			const half = 8192
			slot := func(name string) int64 { return a.Client().ClusterKeySlot(t.Context(), name).Val() }
			inFirst := slot(w.store.Space().Meta()) < half
			victim := a
			if inFirst != withMeta {
				victim = b
			}
			var lost, kept []int
			for place := range 4 {
				if (slot(w.store.Space().Base(place)) < half) == (victim == a) {
					lost = append(lost, place)
				} else {
					kept = append(kept, place)
				}
			}
			if len(lost) == 0 || len(kept) == 0 {
				t.Fatalf("shards of the emptied master: %v, of the other one: %v", lost, kept)
			}

			if err := victim.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			w.checkData()
			eventually(t, "the report of each lost shard", func() bool { return strings.Count(w.urgent(), "Redis no longer has") >= len(lost) })
			got := w.urgent()
			for _, place := range lost {
				want := fmt.Sprintf("Redis no longer has the data of shard %d; %s pending at ", place, counted(by[place]))
				if !strings.Contains(got, want) {
					t.Errorf("%q lacks %q", got, want)
				}
			}
			if n := strings.Count(got, "Redis no longer has"); n != len(lost) {
				t.Errorf("%d losses, want %d: %s", n, len(lost), got)
			}
			if n := logs.FilterMessage("Redis no longer has this service's data").Len(); n != len(lost) {
				t.Errorf("%d lines, want %d", n, len(lost))
			}

			after, err := w.store.CountPending(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for place, n := range by {
				if slices.Contains(kept, place) && after[place] != n {
					t.Errorf("shard %d has %d notices, had %d", place, after[place], n)
				}
			}
			w.put(t, 20, func(i int) store.Request { return store.Request{Key: key(100 + i), Delay: time.Hour} })
			w.checkData()
			if got := w.urgent(); strings.Count(got, "Redis no longer has") != len(lost) {
				t.Errorf("after new notices: %s", got)
			}
		})
	}
}
