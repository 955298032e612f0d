package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/engine/enginetest"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// entries reads the audit, all pages, the oldest first.
func (b *bench) entries(query string) (list []api.AuditEntry) {
	b.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				api.AuditEntry
				At string `json:"at"`
			}
			Cursor string
		}
		if err := json.Unmarshal([]byte(b.do("GET", "/v1/audit?"+query+cursor, "").is(200).raw), &page); err != nil {
			b.t.Fatal(err)
		}
		for _, e := range page.Items {
			list = append([]api.AuditEntry{e.AuditEntry}, list...)
		}
		if page.Cursor == "" {
			return list
		}
		cursor = "&cursor=" + url.QueryEscape(page.Cursor)
	}
}

func told(list []api.AuditEntry) string {
	lines := make([]string, len(list))
	for i, e := range list {
		lines[i] = strings.Join(strings.Fields(fmt.Sprint(e.Client, " ", e.Via, " ", e.Address, " ", e.Action, " ", e.Key, " ", e.Prefix, " ",
			e.Route, " ", e.Result, " ",
			e.Detail)), " ")
	}
	return strings.Join(lines, "\n")
}

// Who changed what is kept; a client reads its own, an admin without a prefix all.
func TestAudit(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	all, one, two := b.as("token-of-all"), b.as("token-of-one"), b.as("token-of-two")
	all.do("GET", "/v1/audit", "").is(200).says(`"items":[]`)
	for _, key := range []string{"app1:jobs:t:a", "app1:jobs:t:b", "app1:jobs:t:c", "app2:x:t:a"} {
		all.do("POST", "/v1/notices", `{"key":"`+key+`","delay":"1h"}`).is(201)
	}
	all.do("PATCH", "/v1/notices/app1:jobs:t:a", `{"delay":"2h"}`).is(200)
	one.do("POST", "/v1/notices/app1:jobs:t:a/fire", "").is(200)
	one.do("DELETE", "/v1/notices/app1:jobs:t:b", "").is(200)
	one.do("DELETE", "/v1/notices/app1:jobs:t:b", "").is(200) // again
	one.do("DELETE", "/v1/notices/app1:jobs:t:none", "").is(404)
	one.do("DELETE", "/v1/notices/app2:x:t:a", "").is(404)
	two.do("DELETE", "/v1/notices/app2:x:t:a", "").is(200)
	b.engine.Move("app1:jobs:t:c", notice.Dead, notice.ReasonTimeout)
	all.do("POST", "/v1/notices/app1:jobs:t:c/redrive", "").is(200)
	b.engine.Move("app1:jobs:t:c", notice.Dead, notice.ReasonTimeout)
	all.do("POST", "/v1/routes/jobs/redrive?dry_run=true", "").is(200)
	one.do("POST", "/v1/routes/jobs/redrive?reason=timeout&prefix=app1:jobs:t&since=2020-01-01T00:00:00Z", "").is(200)
	one.do("POST", "/v1/routes/jobs/redrive", "").is(200) // none is left
	all.do("POST", "/v1/routes/jobs/pause", "").is(200)
	two.do("POST", "/v1/routes/other/pause", "").is(200)
	all.do("POST", "/v1/routes/jobs/resume", "").is(200)
	all.do("GET", "/v1/routes/orders/secret?host=shop.example", "").is(200)

	const addr = " api 192.0.2.1 " // httptest's
	ofOne := "one" + addr + "fire app1:jobs:t:a done it was scheduled\none" + addr + "cancel app1:jobs:t:b done it was scheduled\none" + addr +
		"redrive app1:jobs:t jobs done 1 redriven, of reason timeout, since 2020-01-01T00:00:00Z"
	first := "all" + addr + "reschedule app1:jobs:t:a done it was scheduled\none" + addr + "fire app1:jobs:t:a done it was scheduled\n" +
		"one" + addr + "cancel app1:jobs:t:b done it was scheduled\n"
	second := "two" + addr + "cancel app2:x:t:a done it was scheduled\n"
	third := "all" + addr + "redrive app1:jobs:t:c done it was dead\none" + addr +
		"redrive app1:jobs:t jobs done 1 redriven, of reason timeout, since 2020-01-01T00:00:00Z\nall" + addr + "pause app1:jobs jobs done\n"
	fourth := "two" + addr + "pause app2 other done\n"
	fifth := "all" + addr + "resume app1:jobs jobs done\nall" + addr + "secret app1:orders orders done of shop.example"
	for _, c := range []struct {
		who   *bench
		query string
		want  string
	}{
		{all, "", first + second + third + fourth + fifth},
		{all, "limit=1", first + second + third + fourth + fifth},
		{one, "", ofOne},
		{one, "limit=2", ofOne},
		{one, "prefix=app1:jobs:t:c", ""}, // another client did it
		{two, "", second + fourth},
		{two, "prefix=app1", ""},
		{all, "prefix=app2:", second + fourth},
		{one, "prefix=app1:jobs:t:b", "one" + addr + "cancel app1:jobs:t:b done it was scheduled"},
		{all, "until=2020-01-01T00:00:00Z", ""},
		{all, "since=2020-01-01T00:00:00Z&prefix=app2", second + fourth},
	} {
		if got := told(c.who.entries(c.query)); got != strings.TrimSuffix(c.want, "\n") {
			t.Errorf("%q:\n%s\nwant\n%s", c.query, got, c.want)
		}
	}
	cursor, ok := all.do("GET", "/v1/audit?limit=1", "").is(200).json()["cursor"].(string)
	if !ok {
		t.Fatal("no cursor")
	}
	one.do("GET", "/v1/audit?limit=1&cursor="+cursor, "").is(400).says("query.cursor")
	all.do("GET", "/v1/audit?limit=1&cursor=x"+cursor, "").is(400)
	for _, bad := range []string{"limit=0", "prefix=a:b:c:d:e", "prefix=a%20b", "since=yesterday",
		"since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "client=x"} {
		all.do("GET", "/v1/audit?"+bad, "").is(422)
	}
}

// A call whose answer was lost may have done something; one that was refused for
// sure has not.
func TestWhatMayHaveBeenDoneIsAudited(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	b := newBench(t, withClients, func(o *api.Options) { o.Logger = zap.New(core) }).as("token-of-all")
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:a","delay":"1h"}`).is(201)
	b.engine.Fail(wire.Wrap("amend", errors.New("read: connection reset by peer")))
	b.do("DELETE", "/v1/notices/app1:jobs:t:a", "").is(503)
	b.do("POST", "/v1/routes/jobs/pause", "").is(503)
	b.do("POST", "/v1/routes/jobs/redrive", "").is(503)
	b.do("POST", "/v1/routes/jobs/redrive?dry_run=true", "").is(503)
	b.engine.Fail(wire.ErrNotBegun)
	b.do("DELETE", "/v1/notices/app1:jobs:t:a", "").is(503)
	var got []string
	for _, l := range logs.FilterMessage("operator action").All() {
		m := l.ContextMap()
		got = append(got, fmt.Sprint(m["action"], " ", m["result"], " ", m["detail"]))
	}
	const why = " failed amend: redis is not available: read: connection reset by peer"
	if strings.Join(got, "\n") != "cancel"+why+"\npause"+why+"\nredrive"+why {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if n := logs.FilterMessageSnippet("cannot write to the audit").Len(); n != 3 {
		t.Errorf("%d warnings", n)
	}
}

// unaudited is an engine whose audit takes nothing.
type unaudited struct{ *enginetest.Engine }

func (unaudited) Audit(context.Context, audit.Entry) error { return wire.ErrFull }

func TestACallDoesNotFailForItsEntry(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) { o.Engine = unaudited{o.Engine.(*enginetest.Engine)} })
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:a","delay":"1h"}`).is(201)
	b.do("DELETE", "/v1/notices/app1:jobs:t:a", "").is(200).says(`"changed":true`)
}
