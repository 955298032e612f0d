package harness

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFixedWorkloadMeasuresRedisAndHTTP(t *testing.T) {
	f, err := measureFixed(context.Background(), filepath.Join(t.TempDir(), "redis"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Set < 100 || f.HTTP < 100 || f.At.IsZero() {
		t.Errorf("%+v", f)
	}
	for _, w := range []Wake{f.Wake10, f.Wake1000} {
		if w.Least <= 0 || w.Mean < w.Least || w.P99 < w.Mean/2 || w.CPU <= 0 {
			t.Errorf("%+v", w)
		}
	}
}

func TestSetRateReadsRedisBenchmark(t *testing.T) {
	rate, err := setRate("\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"101010.10\",\"0.3\"\n")
	if err != nil || rate != 101010.10 {
		t.Errorf("%v, %v", rate, err)
	}
	for _, out := range []string{"", "\"GET\",\"1\"\n", "\"SET\",\"x\"\n"} {
		if _, err := setRate(out); err == nil {
			t.Errorf("%q was read", out)
		}
	}
}

func TestPublishedResultNeedsACommittedTree(t *testing.T) {
	for _, x := range []struct {
		revision string
		publish  bool
		refused  bool
	}{{"abc1234", true, false}, {"abc1234-dirty", true, true}, {"abc1234-dirty", false, false}} {
		o := Options{Publish: x.publish}
		if err := o.reproducible(x.revision); (err != nil) != x.refused || err != nil && !strings.Contains(err.Error(), "uncommitted changes") {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

func TestAgeNamesRevisionAndDays(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	r := &Result{Size: Size{Name: "standard"}, Commit: Revision(t.Context()), Started: now.Add(-72 * time.Hour)}
	if got, want := Age(t.Context(), r, now), "measured on 2026-11-21, 3 days and 0 commits ago"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want …%q", got, want)
	}
}
