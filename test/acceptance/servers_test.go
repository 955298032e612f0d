//go:build fault

package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/testkit"
	"notifier/test/record"
)

// numberOf is the number of a server's row: 11.1.8.0 is Redis 8.0, 11.2.8.1 Valkey 8.1.
func numberOf(version string) string {
	name, v, _ := strings.Cut(version, " ")
	kind := map[string]string{"Redis": "1", "Valkey": "2"}[name]
	major, rest, _ := strings.Cut(v, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return strings.Join([]string{"11", kind, major, minor}, ".")
}

// The server that NOTIFIER_TEST_REDIS_SERVER names, or that of PATH: alone, and as a
// cluster of three.
func TestServerOfMatrixDeliversOnTime(t *testing.T) {
	n := record.Sized(3000, 10_000)
	play := func(t *testing.T, no, settings, server string, s *service, rec *receiver) {
		t.Helper()
		begun := time.Now()
		s.stream(n, time.Duration(n)*time.Millisecond)
		eventually(t.Context(), 2*waitTimeout, func() bool { return s.settled("pay") == int64(n) })
		early, failed := 0, 0 // each was scheduled, or the test has ended
		c := record.Counts{Notices: n, Early: &early, Failed: &failed}
		var late []time.Duration
		for _, hits := range rec.byKey() {
			if len(hits) > 1 {
				c.Doubled++
			}
			late = append(late, hits[0].late())
			if hits[0].late() < 0 {
				early++
			}
		}
		c.Lost = n - len(late)
		x := spreadOf(late)
		c.Late = &x.most
		record.Fault{No: no, Fault: "no fault: " + server, Settings: settings, Counts: &c, Aim: "0 lost, 0 doubled",
			Found: record.Reached(c.Lost+c.Doubled == 0, fmt.Sprintf("late p50 %s, p99 %s; claims by event %.0f, by sweep %.0f", record.Short(x.p50),
				record.Short(x.p99),
				s.metric("notifier_claims_total", `"event"`, `"won"`), s.metric("notifier_claims_total", `"sweep"`, `"won"`))), Server: server,
			From: begun}.Put(t)
		if c.Lost+c.Doubled+early > 0 {
			t.Errorf("%d lost, %d doubled, %d early", c.Lost, c.Doubled, early)
		}
	}
	t.Run("alone", func(t *testing.T) {
		rec := listen(t, nil)
		db := testkit.StartRedis(t)
		v := versionOf(t, db.Client())
		play(t, numberOf(v)+".1", "alone", v, launch(t, db.URL(), wide(rec.url)), rec)
	})
	t.Run("cluster", func(t *testing.T) {
		rec := listen(t, nil)
		c := newNodes(t, 3, 0)
		v := c.version(t)
		play(t, numberOf(v)+".2", fmt.Sprintf("cluster of 3, %d shards", shardsOnNodes), v, c.launchOn(t, shardsOnNodes, 3, wide(rec.url)), rec)
	})
}
