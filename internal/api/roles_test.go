package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
)

// rolled are a client of each role, without a prefix.
var rolled = []auth.Client{{Name: "reader", Token: "token-of-reader", Role: auth.Read}, {Name: "producer", Token: "token-of-producer",
	Role: auth.Produce},
	{Name: "operator", Token: "token-of-operator", Role: auth.Operate}, {Name: "admin", Token: "token-of-admin", Role: auth.Admin}}

// required is the lowest role that may make each call, as documented for operators.
var required = map[auth.Role][]string{
	auth.Public: {"healthz", "readyz", "openapi", "keySet"},
	auth.Read: {"list", "get", "listRoutes", "listReceivers", "stats", "dead", "problems", "instances", "audit", "history", "replays",
		"showReplay", "redirects", "showRedirect", "jobs", "showJob", "metrics", "search", "searchFile", "monthReport", "reportFile",
		"recurrences",
		"showRecurrence"},
	auth.Produce: {"schedule", "scheduleBatch", "reschedule", "cancel", "fire", "ack", "nack", "defer", "open", "putRecurrence",
		"deleteRecurrence", "pauseRecurrence", "resumeRecurrence", "runRecurrence"},
	auth.Operate: {"restore", "redrive", "resend", "sendTest", "redriveRoute", "purgeRoute", "pause", "resume", "release", "pauseReceiver",
		"resumeReceiver", "limitReceiver", "replay", "stopReplay", "resumeReplay", "portalLink", "redirect", "stopRedirect", "resumeRedirect",
		"makeJob", "stopJob", "resumeJob",
		"revokePortalLink", "tap"},
	auth.Admin: {"erase", "receiverSecret", "forgetSubject", "liftSubject"},
}

func requiredRole(t *testing.T, operation string) auth.Role {
	t.Helper()
	for role, list := range required {
		if slices.Contains(list, operation) {
			return role
		}
	}
	t.Fatalf("%s: add it to the table of roles", operation)
	return 0
}

func TestRolesAllowTheirCallsOnly(t *testing.T) {
	t.Parallel()
	var doc document
	if err := json.Unmarshal(api.Document("test"), &doc); err != nil {
		t.Fatal(err)
	}
	calls := provoke()
	for path, methods := range doc.Paths {
		for method, op := range methods {
			good, ok := calls[op.OperationID][200]
			if !ok {
				good, ok = calls[op.OperationID][201]
			}
			if !ok {
				t.Errorf("%s: no example of a successful call", op.OperationID)
				continue
			}
			role := requiredRole(t, op.OperationID)
			for _, client := range rolled {
				t.Run(op.OperationID+" as "+client.Name, func(t *testing.T) { good.tryRole(t, method, path, role, client) })
			}
			if _, listed := op.Responses["403"]; !listed && role > auth.Read {
				t.Errorf("%s does not list 403", op.OperationID)
			}
		}
	}
}

// tryRole makes the call as a client: it succeeds if the client's role includes the
// required one, and changes nothing otherwise.
func (c call) tryRole(t *testing.T, method, path string, role auth.Role, client auth.Client) {
	t.Helper()
	before := 0
	c.prepare = then(c.prepare, func(e *enginetest.Engine) { before = e.Changes() })
	c.token = client.Token
	status := http.StatusOK
	if !client.Role.Includes(role) {
		status = http.StatusForbidden
	}

	method = c.methodFor(status, method)
	b, a := c.made(t, method, path)
	if client.Role.Includes(role) {
		if a.status >= 300 {
			t.Errorf("%s %s as %s: %d %s", method, path, client.Name, a.status, a.raw)
		}
		return
	}
	a.is(403).says("client " + client.Name + " has the role " + client.Role.String() + ", and this call needs " + role.String())
	if b.engine.Changes() != before {
		t.Errorf("%s %s as %s was refused, and has changed something", method, path, client.Name)
	}
}

// A client without a role is a defect of the caller of New: it may do nothing.
func TestClientWithoutRoleMayDoNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) { o.Clients = []auth.Client{{Name: "none", Token: "token-of-none"}} }).as("token-of-none")
	for _, path := range []string{"/v1/notices", "/v1/audit", "/metrics", "/v1/history?key=app1:a:b:c"} {
		b.do("GET", path, "").is(403).says("has the role none")
	}
	b.do("GET", "/healthz", "").is(200)
}

// A producer's token is what attackers get first: it is in many programs.
func TestProducerTokenCannotActAsOperator(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) {
		o.Clients = []auth.Client{{Name: "shop", Token: "token-of-shop", Prefix: "app1", Role: auth.Produce}}
		o.History, o.Eraser, o.Replayer = oneEnding{o.Engine}, oneEnding{o.Engine}, &replayer{Engine: o.Engine}
	}).as("token-of-shop")
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(201)
	before := b.engine.Changes()
	for _, attack := range [][3]string{
		{"DELETE", "/v1/history?key=app1:jobs:t:1"},
		{"POST", "/v1/replays", `{"since":"2026-01-01T00:00:00Z","until":"2026-12-01T00:00:00Z","prefix":"app1"}`},
		{"POST", "/v1/routes/jobs/pause"},
		{"POST", "/v1/notices/app1:jobs:t:1/test"},
		{"POST", "/v1/routes/jobs/redrive"},
		{"POST", "/v1/notices/restore",
			`[{"key":"app1:jobs:t:2","id":"x","route":"jobs","state":"scheduled","due":"2026-12-01T00:00:00Z","attempts_made":3}]`},
		{"POST", "/v1/portal-links", `{"prefix":"app1"}`},
		{"GET", "/v1/routes/orders/secret?host=shop.example"},
	} {
		b.do(attack[0], attack[1], attack[2]).is(403).says("client shop has the role produce, and this call needs")
	}
	if n := b.engine.Changes(); n != before {
		t.Errorf("%d changes by refused calls", n-before)
	}
}

func TestAuditOfAllClientsIsForAdmins(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, func(o *api.Options) {
		o.Clients = append(o.Clients, rolled...)
		o.Clients = append(o.Clients, auth.Client{Name: "one-reader", Token: "token-of-one-reader", Prefix: "app1", Role: auth.Read})
	})
	for _, x := range [][2]string{{"token-of-one", "app1:jobs:t:1"}, {"token-of-two", "app2:a:b:1"}, {"token-of-operator", "app1:jobs:t:2"}} {
		who := b.as(x[0])
		who.do("POST", "/v1/notices", `{"key":"`+x[1]+`","delay":"1h"}`).is(201)
		who.do("DELETE", "/v1/notices/"+x[1], "").is(200)
	}
	for token, want := range map[string][]string{
		"token-of-admin":      {"app1:jobs:t:2", "app2:a:b:1", "app1:jobs:t:1"},
		"token-of-operator":   {"app1:jobs:t:2"}, // its own
		"token-of-reader":     {},
		"token-of-one-reader": {},
		"token-of-one":        {"app1:jobs:t:1"},
		"token-of-two":        {"app2:a:b:1"},
	} {
		got := []string{}
		for _, item := range b.as(token).do("GET", "/v1/audit", "").is(200).json()["items"].([]any) {
			got = append(got, item.(map[string]any)["key"].(string))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s reads %v, want %v", token, got, want)
		}
	}
}
