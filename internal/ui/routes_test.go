package ui_test

import (
	"testing"
	"time"

	"notifier/internal/engine/enginetest"
	"notifier/internal/route"
	"notifier/internal/ui"
)

// The page of routes marks a route whose prefix is recorded for workers, and lists the recorded prefixes of the visitor.
func TestRoutesPageShowsPrefixesOfWorkers(t *testing.T) {
	s := newSite(t)
	s.engine.Record("app1:orders", 2)
	s.engine.Record("app1:jobs:batch", 0)
	s.engine.Record("app2:jobs", 1)
	s.as(ui.Visitor{}).get("/ui/routes").is(200).says("for workers", "Prefixes of workers", "app1:orders 2 workers 0 0",
		"app1:jobs:batch nobody 0 0", "app2:jobs 1 worker 0 0")
	s.as(ui.Visitor{Prefix: "app1"}).get("/ui/routes").is(200).says("app1:jobs:batch nobody 0 0").saysNot("app2:jobs")
}

// The page of routes shows the dead-letter hook of a route, without the name of a route that the visitor may not see.
func TestRoutesPageShowsDeadLetterHook(t *testing.T) {
	s := &site{t: t, table: routes(t)}
	hooked, plain, hook := *s.table.Name("orders"), *s.table.Name("fixed"), s.table.Name("other")
	hooked.OnDead, hooked.OnDown, hooked.OnDeadBody = hook, 10*time.Minute, 1<<10
	plain.OnDead = hook
	plain.PauseAfter = 24 * time.Hour
	plain.OnStatus = route.OnStatus{404: route.ActionDead}
	list := []*route.Route{&hooked, &plain, hook}
	var err error
	if s.table, err = route.NewTable(list); err != nil {
		t.Fatal(err)
	}
	s.engine = enginetest.New(t, s.table)
	s.as(ui.Visitor{}).get("/ui/routes").is(200).says(
		"dead-letter hook ON_DEAD : each dead letter, with its body, ON_DOWN : receivers that fail for 10m, to route other",
		"dead-letter hook ON_DEAD : each dead letter, to route other", "on status 404:dead", "receivers paused after 1d of failures")
	s.as(ui.Visitor{Prefix: "app1"}).get("/ui/routes").is(200).says("each dead letter, to another route").saysNot(">other<")
}
