package ui_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/ui"
)

// Pages say that notices wait for resources of the service, the page of a notice after an hour.
func TestPagesOfShortage(t *testing.T) {
	s := newSite(t)
	const key = "app1:orders:paid:1"
	const path = "/ui/notices/" + key
	postpone := func(dueAgo time.Duration) {
		t.Helper()
		now := time.Now().UTC().Truncate(time.Millisecond)
		s.engine.Add(store.Found{State: notice.Scheduled, Notice: &notice.Notice{Key: key, Route: "app1:orders",
			Made: notice.MadeAt(now.Add(-dueAgo)), Due: now.Add(-dueAgo), Content: notice.Content{URL: "https://shop.example/"}}})
		score := float64(now.Add(20*time.Second).UnixMilli()) + .5 + float64(notice.HeldLocal.Index())/256
		st := s.engine.Store()
		if err := st.Wire().Redis.ZAdd(t.Context(), st.Space().Shadow(keys.Partition{Prefix: "app1:orders"}),
			redis.Z{Score: score, Member: key}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	postpone(50 * time.Minute)
	s.get(path).is(200).says("Postponed: attempt 1 was due 50m ago.").saysNot("lacks a resource")
	postpone(2 * time.Hour)
	s.get(path).is(200).says("Not attempted for 2h: the machine of the service lacks a resource. Attempt 1 was due 2h ago.")
	s.in("zh-CN", "", path).says("已有 2 小时 未投递：服务所在机器缺少所需资源。")

	s.engine.Tell(fleet.Figures{Routes: map[string]fleet.RouteFigures{"app1:orders": {Waiting: map[notice.Held]int{notice.HeldLocal: 3}}}})
	s.get("/ui/").is(200).says("3 notices of orders wait for resources of the service", "lacks a resource. The log of the instance")
	s.as(ui.Visitor{Prefix: "app1"}).get("/ui/").is(200).says("wait for resources of the service")
}
