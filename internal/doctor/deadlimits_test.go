package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
)

func TestRemovalOfDeadLettersIsAnnounced(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg, c := configFor(s.URL()), s.Client()
	space, rt := keys.Space{Namespace: "notifier", Shards: 1}, cfg.Routes[0]
	rt.DeadRetention, rt.DeadKeep = 48*time.Hour, 2
	text := func() (all string) {
		t.Helper()
		for _, f := range examine(t, cfg, Options{}).Findings {
			if f.Check == "dead letters" {
				all += f.Message + "; " + f.Remedy + "\n"
			}
		}
		return all
	}
	if got := text(); !strings.Contains(got, "the removal is final; set NOTIFIER_HISTORY_URL") || strings.Contains(got, "at most 2") {
		t.Errorf("%s", got)
	}
	died := time.Now().Add(-25 * time.Hour)
	letters := []redis.Z{{Score: float64(died.UnixMilli()), Member: rt.Prefix + ":a"},
		{Score: float64(time.Now().UnixMilli()), Member: rt.Prefix + ":b"}}
	if err := c.ZAdd(t.Context(), space.Dead(keys.Partition{Prefix: rt.Prefix}), letters...).Err(); err != nil {
		t.Fatal(err)
	}
	got := text()
	for _, want := range []string{"older than 48h, the first at " + died.Add(48*time.Hour).UTC().Format(time.DateTime) + " UTC",
		"has 2 dead letters of at most 2: above that the oldest are removed"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}
