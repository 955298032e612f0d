package ui_test

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

// While a node of Redis is unavailable, pages show the notices of the other nodes. Visitors who see all
// notices also see the address of the node.
func TestPagesNameUnavailableNodes(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.dead("app1:orders:paid:2", "https://shop.example/", notice.ReasonTimeout, "")
	const group = "/ui/dead/group?host=shop.example&reason=timeout&route=orders"
	const said = "Redis is unavailable at 10.0.0.3:6379. The notices stored there are not shown here."
	for _, path := range []string{"/ui/", "/ui/notices", "/ui/dead", group} {
		s.get(path).is(200).saysNot("The notices stored there", "rest of Redis")
	}
	s = newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.dead("app1:orders:paid:2", "https://shop.example/", notice.ReasonTimeout, "")
	s.engine.Miss("10.0.0.3:6379")
	for _, path := range []string{"/ui/", "/ui/notices", "/ui/dead", group} {
		s.get(path).is(200).says(said)
		s.as(ui.Visitor{Prefix: "app1"}).get(path).is(200).says("A part of Redis is unavailable. Its notices are not shown " +
			"here.").saysNot("10.0.0.3")
	}
	s.get("/ui/notices").says("in the rest of Redis")
	s.as(ui.Visitor{Prefix: "app1:orders:paid"}).get("/ui/dead").says("No more groups in the rest of Redis")
	s.get(group).says("more than 1 notice", "Actions on this page skip the notices that are not shown")
	file := s.get("/ui/dead/download?host=shop.example&reason=timeout&route=orders").is(200)
	if name := file.Header.Get("Content-Disposition"); name != `attachment; filename="dead-letters-incomplete.ndjson"` {
		t.Error(name)
	}
}

// Each limitation of the instance is a problem with a link to the checks, the urgent ones first.
func TestNowShowsEachDegradedReason(t *testing.T) {
	s := newSite(t)
	s.engine.SetReady(fleet.Readiness{Ready: true,
		Degraded: []fleet.Condition{{Reason: "no subscription"}, {Reason: "evicted", Urgent: true}}})
	s.get("/ui/").is(200).says(
		"Notices are lost or not delivered evicted Doctor ! This instance is degraded no subscription Doctor")
	s.get("/ui/doctor").is(200).says("This instance is degraded.", "no subscription.", "evicted.")
	s.as(ui.Visitor{Prefix: "app1"}).get("/ui/").is(200).saysNot("evicted", "degraded")
}

// Regression test: pages said nothing while every schedule call was refused. A full Redis is the first problem at each instance.
func TestNowShowsFullRedisFirst(t *testing.T) {
	s := newSite(t)
	const why = "Redis is full (maxmemory): new notices are refused since 03:04:05 UTC"
	s.engine.SetReady(fleet.Readiness{Ready: true,
		Degraded: []fleet.Condition{{Reason: "evicted", Urgent: true},
			{Reason: why, Urgent: true, Full: true}}})
	s.get("/ui/").is(200).says("Redis is full: new notices are refused Stored notices are still delivered. Reported by: test. "+why+" Doctor",
		"Notices are lost or not delivered evicted")
	s.as(ui.Visitor{Prefix: "app1"}).get("/ui/").is(200).saysNot("is full")

	s = newSite(t)
	other := fleet.Instance{ID: "b", About: fleet.About{Label: "other-1"}, State: fleet.Alive, Figures: fleet.Figures{Full: why}.Encode()}
	s.engine.Tell(fleet.Figures{}, other)
	s.get("/ui/").is(200).says("Reported by: other-1. " + why)
	s.in("zh-CN", "", "/ui/").says("Redis 内存已满：新通知被拒绝")

	s = newSite(t)
	other.State = fleet.Unresponsive
	s.engine.Tell(fleet.Figures{}, other)
	s.get("/ui/").is(200).saysNot("is full")
}

// A change of a group reaches the available nodes, and names the skipped ones.
func TestGroupChangesNameSkippedNodes(t *testing.T) {
	for _, change := range []string{"redrive", "purge"} {
		s := newSite(t)
		for i := range 3 {
			s.dead(fmt.Sprintf("app1:orders:paid:%d", i), "https://shop.example/", notice.ReasonTimeout, "")
		}
		s.engine.Miss("10.0.0.3:6379")
		a := s.post("/ui/dead/"+change, "route", "orders", "reason", "timeout", "host", "shop.example", "sure", "yes").is(303)
		s.get(a.Header.Get("Location")).is(200).says("3 notices", "Notices in the unavailable part of Redis were skipped")
		s.get("/ui/audit").says("skipped nodes: 10.0.0.3:6379")
	}
}

// If only the node with the heartbeats is unavailable, only their figures are outdated.
func TestHeartbeatsMayBeUnavailableAlone(t *testing.T) {
	s := newSite(t)
	s.engine.Fail(fmt.Errorf("list instances: %w", &wire.NodeError{Node: "10.0.0.3:6379", Err: wire.ErrUnavailable}))
	open := s.open() // checking a session needs Redis, too
	open.get("/ui/").is(200).says("The figures of instances are outdated: Redis node 10.0.0.3:6379 , which stores them, is unavailable.")
	open.get("/ui/audit").is(503).says("Redis node 10.0.0.3:6379 : ")
}

// A notice that has lost its record, or its place in Redis, says so on its page.
func TestNoticePageSaysWhatIsMissing(t *testing.T) {
	s := newSite(t)
	const key, page = "app1:orders:paid:1", "/ui/notices/app1:orders:paid:1"
	s.keep(key, notice.Content{URL: "https://shop.example/"}, time.Hour)
	at := keys.Partition{Prefix: "app1:orders"}
	if err := s.engine.Store().Wire().Redis.Del(t.Context(), s.engine.Store().Space().Shadow(at)).Err(); err != nil {
		t.Fatal(err)
	}
	s.get(page).is(200).says("Lost: Redis has only the record of this notice", "state lost")
	s = newSite(t)
	s.keep(key, notice.Content{URL: "https://shop.example/"}, time.Hour)
	if err := s.engine.Store().Wire().Redis.Del(t.Context(), s.engine.Store().Space().Records(at)).Err(); err != nil {
		t.Fatal(err)
	}
	s.get(page).is(200).says("The record of this notice is missing in Redis. The notice becomes a dead letter in")
}
