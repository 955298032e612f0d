package doctor

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/testkit"
)

func TestExamineSuggestsDeadLetterHooks(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg, c := configFor(s.URL()), s.Client()
	space := keys.Space{Namespace: "notifier", Shards: 1}
	orders := cfg.Routes[0]
	orders.Name = "pay-orders"
	alarms, once := *orders, *orders
	alarms.Name, alarms.Prefix = "alarms", "app1:alarms"
	once.Name, once.Prefix, once.Ladder = "once", "app1:once", nil
	cfg.Routes = append(cfg.Routes, &alarms, &once)
	hints := func() (list []Finding) {
		t.Helper()
		r := examine(t, cfg, Options{})
		for _, f := range r.Findings {
			if f.Check == "dead letters" {
				list = append(list, f)
			}
		}
		if r.Errors+r.Warnings > 0 {
			t.Errorf("dead letters are a fault:\n%s", r.text())
		}
		return list
	}
	if list := hints(); len(list) > 0 {
		t.Errorf("hints without dead letters: %v", list)
	}

	for _, rt := range []*route.Route{orders, &alarms, &once} {
		dead := space.Dead(keys.Partition{Prefix: rt.Prefix})
		letters := []redis.Z{{Score: 1, Member: rt.Prefix + ":a"}, {Score: 2, Member: rt.Prefix + ":b"}}
		if err := c.ZAdd(t.Context(), dead, letters...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	list := hints()
	if len(list) != 2 || list[0].Severity != Info ||
		!strings.Contains(list[0].Message, "route pay-orders has 2 dead letters and no ON_DEAD") ||
		!strings.Contains(list[0].Remedy, "NOTIFIER_ROUTE_PAY_ORDERS_ON_DEAD") || !strings.Contains(list[1].Message, "route alarms") {
		t.Errorf("%v", list)
	}
	orders.OnDead = &alarms
	if list := hints(); len(list) > 0 {
		t.Errorf("hints although a hook is set, and for the hook's route: %v", list)
	}
}
