package api_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestReleaseEndsTheRecordOfAPrefix(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	all, one, two := b.as("token-of-all"), b.as("token-of-one"), b.as("token-of-two")
	b.engine.Record("app2:batch:run", 0)
	all.do("POST", "/v1/notices", `{"key":"app2:batch:run:1","delay":"1h"}`).is(201)
	// The ladder is the worker's, unless the notice has its own.
	if a := all.do("GET", "/v1/notices/app2:batch:run:1", "").is(200); strings.Contains(a.raw, "max_attempts") {
		t.Errorf("the last attempt is not known: %s", a.raw)
	}

	b.engine.Record("app2:batch:check", 2)

	two.do("GET", "/v1/routes", "").is(200).says(`"recorded":[{"prefix":"app2:batch:check","workers":2,"pending":0,"overdue":0},` +
		`{"prefix":"app2:batch:run","workers":0,"pending":1,"overdue":0,"next_due":`)
	if a := one.do("GET", "/v1/routes", "").is(200); strings.Contains(a.raw, "recorded") {
		t.Errorf("a client is shown the recorded prefixes of another one: %s", a.raw)
	}

	two.do("GET", "/v1/stats", "").is(200).says(`"route":"app2:batch:run","prefix":"app2:batch:run","configured":true,"recorded":true`)
	two.do("POST", "/v1/routes/app2:batch:check/release", "").is(409).says("a running worker handles the prefix; stop it first")
	for who, path := range map[*bench]string{one: "app2:batch:run", all: "app2:batch", two: "other"} {
		who.do("POST", "/v1/routes/"+path+"/release", "").is(404).says("is not recorded for workers")
	}

	before := b.engine.Changes()
	two.do("POST", "/v1/routes/app2:batch:run/release", "").is(200).says(`{"prefix":"app2:batch:run","route":"other"}`)
	two.do("POST", "/v1/routes/app2:batch:run/release", "").is(404)
	if n := b.engine.Changes() - before; n != 1 {
		t.Errorf("%d changes by one release", n)
	}

	if got := told(two.entries("")); got != "two api 192.0.2.1 release app2:batch:run other done" {
		t.Errorf("the audit has: %s", got)
	}
}

// The notices of a released prefix without a route are not delivered, and the answer names no route.
func TestReleaseWithoutAMatchingRouteNamesNone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.engine.Record("app1:batch", 0)
	if a := b.do("POST", "/v1/routes/app1:batch/release", "").is(200); strings.TrimSpace(a.raw) != `{"prefix":"app1:batch"}` {
		t.Errorf("answered %s", a.raw)
	}

	for _, name := range []string{"a:b:c:d", "%20", "app1:batch"} {
		b.do("POST", fmt.Sprintf("/v1/routes/%s/release", name), "").is(404)
	}
}

// Regression test: notices of a recorded prefix were in no listing, because no configured route has the prefix.
func TestNoticesOfRecordedPrefixesAreListed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.engine.Record("app1:jobs:batch", 0)
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:batch:1"}`).is(201)
	for _, query := range []string{"prefix=app1:jobs:batch", "route=app1:jobs:batch"} {
		b.do("GET", "/v1/notices?"+query, "").is(200).says("app1:jobs:batch:1")
	}

	b.do("GET", "/v1/problems", "").is(200).says(`"kind":"unhandled"`, "No worker handles app1:jobs:batch: 1 pending notice",
		`"command":"notifier routes recorded"`)

	// A route with a recorded prefix: its notices are listed once.
	b.engine.Record("app1:orders", 0)
	b.do("POST", "/v1/notices", `{"key":"app1:orders:paid:1"}`).is(201)
	if a := b.do("GET", "/v1/notices?prefix=app1:orders", "").is(200); strings.Count(a.raw, `"key":"app1:orders:paid:1"`) != 1 {
		t.Errorf("listed: %s", a.raw)
	}
}
