package api_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/api"
	"notifier/internal/auth"
)

// withOps adds a client that sees all keys and is no admin.
func withOps(o *api.Options) {
	withClients(o)
	o.Clients = append(o.Clients, auth.Client{Name: "ops", Token: "token-of-ops", Role: auth.Operate})
}

// A stolen token cannot act unseen: a notice names the client that scheduled it.
func TestNoticeNamesItsClient(t *testing.T) {
	t.Parallel()
	b := newBench(t, withOps)
	const key, named = "/v1/notices/app1:jobs:t:a", `"client":"one"`
	one, all, ops := b.as("token-of-one"), b.as("token-of-all"), b.as("token-of-ops")
	body := `{"key":"app1:jobs:t:a","delay":"1h","body":1}`
	if a := one.do("POST", "/v1/notices", body).is(201); strings.Contains(a.raw, `"client"`) {
		t.Errorf("a client with a prefix is shown %s", a.raw)
	}
	// The client is not compared.
	all.do("POST", "/v1/notices", body).is(200).says(named)
	all.do("POST", "/v1/notices/batch", "["+body+`,{"key":"app1:jobs:t:b"}]`).is(207).says(named, `"client":"all"`)
	for _, b := range []*bench{all, ops} {
		b.do("GET", key, "").is(200).says(named)
		b.do("GET", "/v1/notices", "").is(200).says(named, `"client":"all"`)
		b.do("PATCH", key, `{"delay":"2h"}`).is(200).says(named)
	}
	for _, path := range []string{key, "/v1/notices", "/v1/notices?prefix=app1"} {
		if a := one.do("GET", path, "").is(200); strings.Contains(a.raw, `"client"`) {
			t.Errorf("GET %s as a client with a prefix: %s", path, a.raw)
		}
	}
	all.do("POST", "/v1/notices", `{"key":"app1:jobs:t:a","body":2,"on_duplicate":"replace","delay":"1h"}`).is(201).says(`"client":"all"`)
}

// A restored notice belongs to the client that restores it. The client in the file is ignored.
func TestRestoredNoticeNamesTheRestorer(t *testing.T) {
	t.Parallel()
	b := newBench(t, withOps)
	const key = "/v1/notices/app1:jobs:t:a"
	b.as("token-of-one").do("POST", "/v1/notices", `{"key":"app1:jobs:t:a","delay":"1h","body":1}`).is(201)
	file := b.as("token-of-all").do("GET", key, "").is(200).says(`"client":"one"`).raw
	// Another Redis.
	other := newBench(t, withOps)
	other.as("token-of-ops").do("POST", "/v1/notices/restore", file).is(201)
	other.as("token-of-all").do("GET", key, "").is(200).says(`"client":"ops"`)
}

// With one client the records contain no client number, so they are as short as without clients.
func TestOneClientIsNotRecorded(t *testing.T) {
	t.Parallel()
	one := func(o *api.Options) {
		o.Clients = []auth.Client{{Name: "all", Token: "token-of-all", Role: auth.Admin}}
	}
	for _, clients := range [](func(*api.Options)){one, func(*api.Options) {}} {
		b := newBench(t, clients).as("token-of-all")
		b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:a","delay":"1h"}`).is(201)
		if a := b.do("GET", "/v1/notices/app1:jobs:t:a", "").is(200); strings.Contains(a.raw, `"client"`) {
			t.Error(a.raw)
		}
	}
}

// lines returns the log lines of calls at info: a call's operation, or "action" if it is the
// line of the audit, with client, key, status and count.
func lines(logs *observer.ObservedLogs) []string {
	var out []string
	for _, l := range logs.TakeAll() {
		if l.Level != zapcore.InfoLevel {
			continue
		}
		m := l.ContextMap()
		what := fmt.Sprint(m["operation"])
		switch l.Message {
		case "operator action":
			what += " action"
		case "api call":
			what += fmt.Sprint(" ", m["status"])
		default:
			continue
		}
		what += fmt.Sprint(" ", m["client"])
		for _, name := range []string{"key", "count"} {
			if v, ok := m[name]; ok {
				what += fmt.Sprint(" ", v)
			}
		}
		out = append(out, what)
	}
	return out
}

func TestCallsAreLogged(t *testing.T) {
	t.Parallel()
	const secret = "sk_live_4711"
	calls := func(b *bench) {
		b.do("POST", "/v1/notices", `{"key":"app1:orders:t:a","delay":"1h","url":"https://`+secret+`.example","body":"`+secret+
			`","headers":{"x-a":"`+secret+`"}}`).is(201)
		b.do("POST", "/v1/notices/batch", `[{"key":"app1:jobs:t:b","delay":"1h"},{"key":"app2:x:t:c"}]`).is(207)
		b.do("POST", "/v1/notices", `{"key":"app2:x:t:c"}`).is(403)
		b.do("GET", "/v1/notices/app1:orders:t:a?x="+secret, "").is(422)
		b.do("DELETE", "/v1/notices/app1:orders:t:a", "").is(200)
		b.do("DELETE", "/v1/notices/app1:orders:t:a", "").is(200) // again: the audit has no entry
		b.do("POST", "/v1/notices/app1:jobs:t:b/ack", `{"attempt":1,"id":"`+secret+`"}`).is(409)
		b.do("POST", "/v1/notices/app2:x:t:c/fire", "").is(404)
		b.as("token-of-reader").do("DELETE", "/v1/notices/app1:jobs:t:b", "").is(403)
		b.as("wrong-"+secret).do("DELETE", "/v1/notices/app1:jobs:t:b", "").is(401)
		b.do("GET", "/healthz", "").is(200)
	}
	schedules := []string{"schedule 201 one app1:orders:t:a", "scheduleBatch 207 one app1:jobs:t:b 2", "schedule 403 one app2:x:t:c",
		"get 422 one app1:orders:t:a"}
	action := []string{"cancel action one app1:orders:t:a"}
	changes := append(action[:1:1], "cancel 200 one app1:orders:t:a", "ack 409 one app1:jobs:t:b", "fire 404 one app2:x:t:c",
		"cancel 403 reader app1:jobs:t:b")
	for setting, want := range map[api.LogCalls][]string{api.LogOff: action, api.LogChanges: changes,
		api.LogAll: append(schedules, changes...)} {
		core, logs := observer.New(zap.InfoLevel)
		b := newBench(t, withClients, func(o *api.Options) {
			o.Clients = append(o.Clients, auth.Client{Name: "reader", Token: "token-of-reader", Role: auth.Read})
			o.Logger, o.LogCalls = zap.New(core), setting
		}).as("token-of-one")
		calls(b)
		for _, l := range logs.All() {
			if text := fmt.Sprint(l.ContextMap()); strings.Contains(text, secret) || strings.Contains(text, "token-of-") {
				t.Errorf("%s: logged %s", setting, text)
			}
		}
		if got := lines(logs); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant:\n%s", setting, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Calls beyond a client's rate do nothing, and may not fill the log.
func TestCallsBeyondTheRateAreNotLogged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	b := newBench(t, func(o *api.Options) {
		o.Clients = []auth.Client{{Name: "one", Token: "token-of-one", Role: auth.Admin, Rate: 1}}
		o.Logger, o.LogCalls = zap.New(core), api.LogAll
	}).as("token-of-one")
	served := 0
	for range 50 {
		if b.do("DELETE", "/v1/notices/app1:jobs:t:a", "").status != 429 {
			served++
		}
	}
	if got := len(lines(logs)); got != served || served == 50 {
		t.Errorf("%d lines for %d calls within the rate", got, served)
	}
}
