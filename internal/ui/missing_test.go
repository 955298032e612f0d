package ui_test

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

// While a node of Redis is away the pages show what the others have, and say which it
// is to who sees everything.
func TestPagesSayWhatIsMissing(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.dead("app1:orders:paid:2", "https://shop.example/", notice.ReasonTimeout, "")
	const group = "/ui/dead/group?host=shop.example&reason=timeout&route=orders"
	const said = "Redis node 10.0.0.3:6379 is unavailable: its notices are not shown here."
	for _, path := range []string{"/ui/", "/ui/notices", "/ui/dead", group} {
		s.get(path).is(200).saysNot("is unavailable: its notices", "rest of Redis")
	}
	s = newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.dead("app1:orders:paid:2", "https://shop.example/", notice.ReasonTimeout, "")
	s.engine.Miss("10.0.0.3:6379")
	for _, path := range []string{"/ui/", "/ui/notices", "/ui/dead", group} {
		s.get(path).is(200).says(said)
		s.as(ui.Visitor{Prefix: "app1"}).get(path).is(200).says("A part of Redis is unavailable: its notices are not shown here.").saysNot("10.0.0.3")
	}
	s.get("/ui/notices").says("Nothing else in the rest of Redis").saysNot("No more notices")
	s.get("/ui/dead").says("all groups in the rest of Redis")
	s.get(group).says("more than 1 notice", "What is done from here is done to the others")
	file := s.get("/ui/dead/download?host=shop.example&reason=timeout&route=orders").is(200)
	if name := file.Header.Get("Content-Disposition"); name != `attachment; filename="dead-letters-incomplete.ndjson"` {
		t.Error(name)
	}
}

// A change of a group is made of what the other nodes have, and says what it left out.
func TestChangesOfAGroupSayWhatTheyLeaveOut(t *testing.T) {
	for _, change := range []string{"redrive", "purge"} {
		s := newSite(t)
		for i := range 3 {
			s.dead(fmt.Sprintf("app1:orders:paid:%d", i), "https://shop.example/", notice.ReasonTimeout, "")
		}
		s.engine.Miss("10.0.0.3:6379")
		a := s.post("/ui/dead/"+change, "route", "orders", "reason", "timeout", "host", "shop.example", "sure", "yes").is(303)
		s.get(a.Header.Get("Location")).is(200).says("3 notices", "Notices in the unavailable part of Redis were skipped")
		s.get("/ui/audit").says("without what lies at 10.0.0.3:6379")
	}
}

// Where only the node is away at which instances tell of their work, that alone is
// old.
func TestWhatInstancesTellMayBeAwayAlone(t *testing.T) {
	s := newSite(t)
	s.engine.Fail(fmt.Errorf("list instances: %w", &wire.NodeError{Node: "10.0.0.3:6379", Err: wire.ErrUnavailable}))
	open := s.open() // who signs in is looked for in Redis too
	open.get("/ui/").is(200).says("Figures of instances are outdated: they are stored at Redis node 10.0.0.3:6379, which is unavailable.")
	open.get("/ui/audit").is(503).says("Redis node 10.0.0.3:6379: ")
}
