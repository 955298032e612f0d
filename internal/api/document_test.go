package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/recur"
	"notifier/internal/store"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// The document in the repository is the one that is served, for those who generate
// clients from it.
func TestDocumentInTheRepositoryIsUpToDate(t *testing.T) {
	t.Parallel()
	got, err := os.ReadFile("../../openapi.json")
	if err != nil || !bytes.Equal(got, api.Document(api.Unversioned)) {
		t.Errorf("openapi.json is outdated (%v); run go generate ./internal/api", err)
	}
}

type document struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Responses   map[string]struct {
			Content map[string]struct {
				Schema schema `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Items      *schema           `json:"items"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
}

// call provokes one status of one operation.
type call struct {
	path, body string
	header     []string
	prepare    func(e *enginetest.Engine)
	token      string
	head       bool // a success is tried as HEAD, because a GET streams until the reader leaves
}

// openBody has a text that is sealed for each call.
const openBody = `{"key":"app1:jobs:t:1","sealed":"SEALED"}`

const key = "/v1/notices/app1:jobs:t:1"

// theLetter is a dead letter of a key, and letter shows it.
func theLetter(key string) store.Letter {
	at := time.Date(2026, 11, 20, 12, 0, 0, 123_456_000, time.UTC)
	return store.Letter{Notice: &notice.Notice{Key: key, Made: notice.MadeAt(at), Due: at.Truncate(time.Millisecond),
		Reason: notice.ReasonGone}, Died: at.Add(time.Second).Truncate(time.Millisecond)}
}

func letter(key string) string {
	l := theLetter(key)
	return fmt.Sprintf(`{"key":%q,"id":%q,"state":"dead","reason":"gone","due":%q,"created_at":%q,"settled_at":%q}`, key, l.ID(),
		notice.Stamp(l.Due),
		notice.Stamp(l.Made.Time()), notice.Stamp(l.Died))
}

// provoke holds, by operation and status, the call that must be answered so.
// What all operations share is provoked by shared.
func provoke() map[string]map[int]call {
	move := func(to notice.State) func(*enginetest.Engine) {
		return func(e *enginetest.Engine) { e.Move("app1:jobs:t:1", to, notice.ReasonTimeout) }
	}
	dead := move(notice.Dead)
	full := func(e *enginetest.Engine) { e.Fail(wire.ErrFull) }
	forgotten := func(e *enginetest.Engine) { e.Fail(&vault.ForgottenError{At: time.Now()}) }
	toShop := func(e *enginetest.Engine) {
		_, _ = e.Schedule(context.Background(), store.Request{Key: "app1:orders:t:1", Content: notice.Content{URL: "https://shop.example/hooks"}})
	}
	huge := strings.Repeat(" ", 40<<20)
	const absent, letters = "/v1/notices/app1:jobs:t:absent", "/v1/notices/restore"
	m := map[string]map[int]call{
		"schedule": {201: {body: `{"key":"app2:a:b:new"}`}, 200: {body: `{"key":"app1:jobs:t:1"}`}, 400: {body: `{`}, 413: {body: huge},
			409: {body: `{"key":"app1:jobs:t:1","body":1}`}, 410: {body: `{"key":"app1:jobs:t:2"}`, prepare: forgotten}, 415: {header: []string{"Content-Type", "text/plain"}}, 422: {body: `{}`},
			507: {body: `{"key":"app2:a:b:new"}`, prepare: full}, 403: {body: `{"key":"app2:a:b:c"}`, token: "token-of-one"}},
		"scheduleBatch": {201: {body: `[{"key":"app2:a:b:new"}]`}, 200: {body: `[{"key":"app1:jobs:t:1"}]`},
			207: {body: `[{"key":"app1:jobs:t:1"},{}]`},
			400: {body: `[{`}, 413: {body: huge}, 415: {header: []string{"Content-Type", "text/plain"}}, 422: {body: `[]`},
			507: {body: `{"key":"app2:a:b:new"}`, prepare: full}},
		"restore": {201: {path: letters, body: letter("app2:a:b:dead")}, 200: {path: letters, body: letter("app1:jobs:t:dead"),
			prepare: func(e *enginetest.Engine) {
				e.Restore(context.Background(), []store.Letter{theLetter("app1:jobs:t:dead")})
			}}, 207: {path: letters, body: letter("app2:a:b:dead") + "\n{}"}, 400: {path: letters, body: `[{`}, 413: {path: letters, body: huge},
			415: {path: letters, header: []string{"Content-Type", "text/plain"}}, 422: {path: letters, body: `[]`},
			507: {path: letters, body: letter("app2:a:b:dead"), prepare: full}},
		"list": {200: {}, 400: {path: "/v1/notices?%zz"}, 404: {path: "/v1/notices?route=none"}, 422: {path: "/v1/notices?limit=0"}},
		"get":  {200: {path: key}, 404: {path: absent}, 422: {path: "/v1/notices/x"}, 400: {path: key + "?%zz"}},
		"reschedule": {200: {path: key, body: `{"delay":1}`}, 404: {path: absent, body: `{"delay":1}`}, 409: {path: key, body: `{"delay":1}`,
			prepare: dead}, 410: {path: key, body: `{"delay":1}`, prepare: forgotten},
			422: {path: key, body: `{}`}},
		"cancel": {200: {path: key}, 404: {path: absent}, 409: {path: key, prepare: move(notice.Delivered)}, 422: {path: "/v1/notices/x"}},
		"fire": {200: {path: key + "/fire"}, 404: {path: absent + "/fire"}, 409: {path: key + "/fire", prepare: dead},
			422: {path: "/v1/notices/x/fire"}},
		"redrive": {200: {path: key + "/redrive", prepare: dead}, 404: {path: absent + "/redrive"}, 409: {path: key + "/redrive"},
			422: {path: "/v1/notices/x/redrive"}},
		"resend": {200: {path: key + "/resend", body: `{"id":"ID","ending":1}`, prepare: move(notice.Delivered)},
			404: {path: absent + "/resend", body: `{"id":"ID","ending":1}`},
			409: {path: key + "/resend", body: `{"id":"ID","ending":1}`}, 422: {path: key + "/resend", body: `{}`}},
		"sendTest": {200: {path: "/v1/notices/app1:orders:t:1/test", prepare: toShop}, 404: {path: absent + "/test"},
			409: {path: key + "/test"}, 422: {path: "/v1/notices/x/test"}},
		"tap": {200: {path: "/v1/tap", head: true}, 400: {path: "/v1/tap?%zz"}, 404: {path: "/v1/tap?prefix=app2", token: "token-of-narrow"},
			422: {path: "/v1/tap?prefix=x:y:z:w"}},
		"listRoutes": {200: {path: "/v1/routes"}, 400: {path: "/v1/routes?%zz"}, 422: {path: "/v1/routes?x=1"}},
		"release": {200: {path: "/v1/routes/app1:batch/release", prepare: func(e *enginetest.Engine) { e.Record("app1:batch", 0) }},
			400: {path: "/v1/routes/app1:batch/release", body: "{"}, 403: {path: "/v1/routes/app1:jobs/release", token: "token-of-narrow"},
			404: {path: "/v1/routes/app1:batch/release"}, 422: {path: "/v1/routes/app1:batch/release?x=1"},
			409: {path: "/v1/routes/app1:batch/release", prepare: func(e *enginetest.Engine) { e.Record("app1:batch", 1) }}},
		"listReceivers": {200: {path: "/v1/receivers"}, 400: {path: "/v1/receivers?%zz"}, 404: {path: "/v1/receivers?route=none"},
			422: {path: "/v1/receivers?host=a/b"}},
		"redriveRoute": {200: {path: "/v1/routes/jobs/redrive"}, 400: {path: "/v1/routes/jobs/redrive?%zz"},
			404: {path: "/v1/routes/none/redrive"},
			422: {path: "/v1/routes/jobs/redrive?dry_run=x"}},
		"purgeRoute": {200: {path: "/v1/routes/jobs/purge"}, 400: {path: "/v1/routes/jobs/purge?%zz"}, 404: {path: "/v1/routes/none/purge"},
			422: {path: "/v1/routes/jobs/purge?rate=1/s"}},
		"receiverSecret": {200: {path: "/v1/routes/orders/secret?host=shop.example"}, 400: {path: "/v1/routes/orders/secret?%zz"},
			403: {path: "/v1/routes/orders/secret?host=shop.example", token: "token-of-one"},
			404: {path: "/v1/routes/none/secret?host=shop.example"},
			409: {path: "/v1/routes/jobs/secret?host=shop.example"}, 422: {path: "/v1/routes/orders/secret"}},
		"problems": {200: {path: "/v1/problems"}, 400: {path: "/v1/problems?%zz"}, 404: {path: "/v1/problems?route=none"},
			422: {path: "/v1/problems?x=1"}},
		"dead": {200: {path: "/v1/dead?route=jobs&reason=gone&since=2026-11-21T00:00:00Z"}, 400: {path: "/v1/dead?%zz"},
			404: {path: "/v1/dead?route=none"}, 422: {path: "/v1/dead?reason=x"}},
		"stats": {200: {path: "/v1/stats"}, 400: {path: "/v1/stats?%zz"}, 422: {path: "/v1/stats?x=1"}},
		"instances": {200: {path: "/v1/instances"}, 400: {path: "/v1/instances?%zz"}, 422: {path: "/v1/instances?x=1"},
			403: {path: "/v1/instances", token: "token-of-one"}},
		"erase": {200: {path: "/v1/history?key=app1:jobs:t:1"}, 400: {path: "/v1/history?%zz"}, 422: {path: "/v1/history"},
			403: {path: "/v1/history?host=shop.example", token: "token-of-one"}, 404: {path: "/v1/history?key=app2:jobs:t:1",
				token: "token-of-one"}},
		"forgetSubject": {200: {path: "/v1/subjects/audience:m17"}, 400: {path: "/v1/subjects/audience:m17?%zz"},
			403: {path: "/v1/subjects/audience:m17", token: "token-of-one"}, 409: {path: "/v1/subjects/audience:m17", prepare: manyJobs},
			422: {path: "/v1/subjects/audience:"}},
		"liftSubject": {200: {path: "/v1/subjects/id:app1:orders:4711/lift"}, 400: {path: "/v1/subjects/audience:m17/lift?%zz"},
			403: {path: "/v1/subjects/id:app2:orders:1/lift", token: "token-of-one"}, 422: {path: "/v1/subjects/route:app1/lift"}},
		"replay": {201: {path: "/v1/replays", body: `{"since":"2026-11-20T00:00:00Z"}`},
			200: {path: "/v1/replays", body: `{"since":"2026-11-20T00:00:00Z","dry_run":true}`},
			409: {path: "/v1/replays", body: `{"since":"2026-11-20T00:00:00Z","id":"other"}`},
			422: {path: "/v1/replays", body: `{}`}, 403: {path: "/v1/replays", body: `{"since":"2026-11-20T00:00:00Z","prefix":"app2"}`,
				token: "token-of-one"}},
		"redirect": {201: {path: "/v1/redirects", body: redirectBody},
			200: {path: "/v1/redirects", body: `{"host":"shop.example","to":"https://new.example","dry_run":true}`},
			403: {path: "/v1/redirects", body: `{"host":"shop.example","to":"https://new.example","prefix":"app2"}`, token: "token-of-one"},
			409: {path: "/v1/redirects", body: redirectBody, prepare: manyRedirects}, 422: {path: "/v1/redirects", body: `{}`}},
		"makeJob": {201: {path: "/v1/jobs", body: jobBody}, 200: {path: "/v1/jobs", body: `{"kind":"purge","dry_run":true}`},
			403: {path: "/v1/jobs", body: `{"kind":"purge","prefix":"app2"}`, token: "token-of-one"},
			409: {path: "/v1/jobs", body: jobBody, prepare: manyJobs}, 422: {path: "/v1/jobs", body: `{}`}},
		"jobs": {200: {path: "/v1/jobs", prepare: someJobs}, 400: {path: "/v1/jobs?%zz"}, 422: {path: "/v1/jobs?x=1"}},
		"showJob": {200: {path: "/v1/jobs/job_done", prepare: someJobs}, 400: {path: "/v1/jobs/job_done?%zz"},
			404: {path: "/v1/jobs/job_none"}, 422: {path: "/v1/jobs/job_done?x=1"}},
		"stopJob": {200: {path: "/v1/jobs/job_stopped", prepare: someJobs}, 404: {path: "/v1/jobs/job_none"},
			409: {path: "/v1/jobs/job_done", prepare: someJobs}, 422: {path: "/v1/jobs/job_done?x=1"}},
		"resumeJob": {200: {path: "/v1/jobs/job_stopped/resume", prepare: someJobs}, 404: {path: "/v1/jobs/job_none/resume"},
			409: {path: "/v1/jobs/job_done/resume", prepare: someJobs}, 422: {path: "/v1/jobs/job_done/resume?x=1"}},
		"redirects": {200: {path: "/v1/redirects", prepare: someRedirects}, 400: {path: "/v1/redirects?%zz"}, 422: {path: "/v1/redirects?x=1"}},
		"showRedirect": {200: {path: "/v1/redirects/rdr_done", prepare: someRedirects}, 400: {path: "/v1/redirects/rdr_done?%zz"},
			404: {path: "/v1/redirects/rdr_none"}, 422: {path: "/v1/redirects/rdr_done?x=1"}},
		"stopRedirect": {200: {path: "/v1/redirects/rdr_stopped", prepare: someRedirects}, 404: {path: "/v1/redirects/rdr_none"},
			409: {path: "/v1/redirects/rdr_done", prepare: someRedirects}, 422: {path: "/v1/redirects/rdr_done?x=1"}},
		"resumeRedirect": {200: {path: "/v1/redirects/rdr_stopped/resume", prepare: someRedirects}, 404: {path: "/v1/redirects/rdr_none/resume"},
			409: {path: "/v1/redirects/rdr_done/resume", prepare: someRedirects}, 422: {path: "/v1/redirects/rdr_done/resume?x=1"}},
		"replays": {200: {path: "/v1/replays"}, 400: {path: "/v1/replays?%zz"}, 422: {path: "/v1/replays?x=1"}},
		"showReplay": {200: {path: "/v1/replays/rpl_runs"}, 400: {path: "/v1/replays/rpl_runs?%zz"}, 404: {path: "/v1/replays/rpl_none"},
			409: {path: "/v1/replays/rpl_both"},
			422: {path: "/v1/replays/rpl_runs?x=1"}},
		"stopReplay": {200: {path: "/v1/replays/rpl_stopped"}, 404: {path: "/v1/replays/rpl_runs", token: "token-of-one"},
			409: {path: "/v1/replays/rpl_done"},
			422: {path: "/v1/replays/rpl_runs?x=1"}},
		"resumeReplay": {200: {path: "/v1/replays/rpl_runs/resume"}, 404: {path: "/v1/replays/rpl_none/resume"},
			409: {path: "/v1/replays/rpl_done/resume"},
			422: {path: "/v1/replays/rpl_runs/resume?x=1"}},
		"search": {200: {path: "/v1/search?q=4711"}, 400: {path: "/v1/search?%zz"}, 422: {path: "/v1/search?q=1+2"}},
		"monthReport": {200: {path: "/v1/reports/2026-11?zone=Asia/Shanghai"}, 400: {path: "/v1/reports/2026-11?%zz"},
			422: {path: "/v1/reports/2026"}},
		"reportFile": {200: {path: "/v1/reports/this/csv"}, 400: {path: "/v1/reports/this/csv?%zz"},
			422: {path: "/v1/reports/this/csv?by=host"}},
		"searchFile": {200: {path: "/v1/search.csv?q=4711"}, 400: {path: "/v1/search.csv?%zz"}, 422: {path: "/v1/search.csv?q=declined"}},
		"history": {200: {path: "/v1/history"}, 400: {path: "/v1/history?%zz"}, 422: {path: "/v1/history?text=x"},
			429: {path: "/v1/history", prepare: func(e *enginetest.Engine) { e.Fail(history.ErrBusy) }}},
		"audit": {200: {path: "/v1/audit"}, 400: {path: "/v1/audit?%zz"}, 422: {path: "/v1/audit?limit=0"}},
		"portalLink": {201: {path: "/v1/portal-links", body: `{"prefix":"app1:orders"}`}, 400: {path: "/v1/portal-links", body: "{"},
			403: {path: "/v1/portal-links", body: `{"prefix":"app2"}`, token: "token-of-one"}, 422: {path: "/v1/portal-links", body: "{}"},
			409: {path: "/v1/portal-links", body: `{"prefix":"app1"}`, token: "token-of-one", prepare: func(e *enginetest.Engine) { fillLinks(e, "one") }},
			507: {path: "/v1/portal-links", body: `{"prefix":"app1"}`, prepare: full}},
		"revokePortalLink": {200: {path: "/v1/portal-links/LINK"}, 404: {path: "/v1/portal-links/none"},
			422: {path: "/v1/portal-links/LINK?x=1"}},
		"healthz": {200: {path: "/healthz"}},
		"readyz":  {200: {path: "/readyz"}, 503: {path: "/readyz", prepare: func(e *enginetest.Engine) { e.SetReady(fleet.Readiness{}) }}},
		"metrics": {200: {path: "/metrics"}, 403: {path: "/metrics", token: "token-of-one"}},
		"openapi": {200: {path: "/openapi.json"}},
		"keySet":  {200: {path: "/.well-known/jwks.json"}},
	}
	for _, verb := range []string{"ack", "nack", "defer"} {
		m[verb] = map[int]call{200: {path: key + "/" + verb, body: `{"attempt":1,"id":"ID"}`,
			prepare: func(e *enginetest.Engine) { e.Hand("app1:jobs:t:1") }},
			404: {path: absent + "/" + verb, body: `{"attempt":1,"id":"ID"}`}, 409: {path: key + "/" + verb, body: `{"attempt":1,"id":"ID"}`},
			422: {path: key + "/" + verb, body: `{}`}}
	}
	m["open"] = map[int]call{200: {path: "/v1/open", body: openBody}, 400: {path: "/v1/open", body: "{"},
		403: {path: "/v1/open", body: openBody, token: "token-of-two"}, 410: {path: "/v1/open", body: openBody, prepare: forgotten},
		413: {path: "/v1/open", body: huge},
		415: {path: "/v1/open", body: openBody, header: []string{"Content-Type", "text/plain"}}, 422: {path: "/v1/open", body: "{}"}}
	tooMany := func(e *enginetest.Engine) { e.Fail(&store.FullError{}) }
	for id, path := range map[string]string{"pauseReceiver": "pause", "resumeReceiver": "resume", "limitReceiver": "limits"} {
		path = "/v1/receivers/" + path
		shop := `{"host":"shop.example"}`
		m[id] = map[int]call{200: {path: path, body: shop}, 400: {path: path, body: "{"}, 409: {path: path, body: shop, prepare: tooMany},
			403: {path: path, body: `{"host":"shop.example","prefix":"app2"}`, token: "token-of-one"},
			413: {path: path, body: huge}, 415: {path: path, body: shop, header: []string{"Content-Type", "text/plain"}},
			422: {path: path, body: `{"host":"https://shop.example"}`}}
	}
	m["resumeReceiver"][200] = call{path: "/v1/receivers/resume", body: `{"host":"shop.example"}`, prepare: func(e *enginetest.Engine) {
		_ = e.Engine.PauseReceiver(context.Background(), "", receivers.Receiver{Host: "shop.example"}, time.Time{}, 0)
	}}
	defined := func(e *enginetest.Engine) { // with ticks that no test reaches
		d := recur.Definition{Key: "app1:jobs:daily:books", Spec: recur.Spec{Every: time.Hour}, From: time.Now().AddDate(20, 0, 0)}
		_, _, _ = e.Engine.Recurrences().Put(context.Background(), d)
	}
	changed := func(e *enginetest.Engine) { e.Fail(store.ErrOtherState) }
	m["recurrences"] = map[int]call{200: {path: "/v1/recurrences", prepare: defined}, 400: {path: "/v1/recurrences?%zz"},
		422: {path: "/v1/recurrences?limit=0"}}
	m["showRecurrence"] = map[int]call{200: {path: books, prepare: defined}, 400: {path: books + "?%zz"}, 404: {path: books},
		422: {path: "/v1/recurrences/x"}}
	m["putRecurrence"] = map[int]call{201: {path: books, body: twoDaily}, 200: {path: books, body: twoDaily, prepare: defined},
		400: {path: books, body: "{"}, 403: {path: books, body: twoDaily, token: "token-of-two"},
		409: {path: books, body: twoDaily, prepare: changed}, 413: {path: books, body: huge},
		415: {path: books, header: []string{"Content-Type", "text/plain"}}, 422: {path: books, body: "{}"},
		507: {path: books, body: twoDaily, prepare: full}}
	for id, verb := range map[string]string{"deleteRecurrence": "", "pauseRecurrence": "/pause", "resumeRecurrence": "/resume"} {
		m[id] = map[int]call{200: {path: books + verb, prepare: defined}, 404: {path: books + verb}, 409: {path: books + verb, prepare: changed},
			422: {path: "/v1/recurrences/x" + verb}}
	}
	m["runRecurrence"] = map[int]call{201: {path: books + "/run", prepare: defined}, 404: {path: books + "/run"},
		409: {path: books + "/run", prepare: changed}, 422: {path: "/v1/recurrences/x/run"}}
	for _, verb := range []string{"pause", "resume"} {
		m[verb] = map[int]call{200: {path: "/v1/routes/jobs/" + verb}, 404: {path: "/v1/routes/none/" + verb}, 422: {path: "/v1/routes/jobs/" +
			verb + "?x=1"},
			400: {path: "/v1/routes/jobs/" + verb, body: "{"}, 403: {path: "/v1/routes/jobs/" + verb, token: "token-of-narrow"}}
	}
	return m
}

// shared provokes a status that many operations list, from a call that would do.
func shared(status int, good call) (call, bool) {
	switch status {
	case http.StatusTooManyRequests:
		good.token = "token-of-spent"
	case 400:
		good.body = "{"
	case 401:
		good.token = "wrong"
	case 403:
		good.token = "token-of-reader"
	case 406:
		good.header = []string{"Accept", "text/html"}
	case 413:
		good.body = strings.Repeat(" ", 1<<20)
	case 415:
		good.header = []string{"Content-Type", "text/plain"}
	case 503:
		good.prepare = then(good.prepare, func(e *enginetest.Engine) { e.Fail(wire.ErrUnavailable) })
	default:
		return good, false
	}
	return good, true
}

func then(a, b func(*enginetest.Engine)) func(*enginetest.Engine) {
	return func(e *enginetest.Engine) {
		if a != nil {
			a(e)
		}
		b(e)
	}
}

// Every operation answers with every status that the document lists for it, in the form that the document describes.
func TestContract(t *testing.T) {
	t.Parallel()
	var doc document
	if err := json.Unmarshal(api.Document("test"), &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("%q, %v", doc.OpenAPI, err)
	}
	calls, tried := provoke(), 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			for code, response := range op.Responses {
				status, _ := strconv.Atoi(code)
				c, ok := calls[op.OperationID][status]
				if !ok {
					good, any := calls[op.OperationID][200]
					if !any {
						good = calls[op.OperationID][201]
					}
					c, ok = shared(status, good)
				}
				if status == 500 || status == 408 || op.OperationID == "keySet" && status == 429 ||
					slices.Contains([]string{"metrics", "history", "replay", "replays", "recurrences", "putRecurrence",
						"monthReport", "reportFile"},
						op.OperationID) && status == 404 {
					// TestPanicAndLog, TestKeySetIsPublic, TestBodyMustArriveInTime, TestMetricsAreServed, TestAHistoryThatGivesNoAnswer,
					// TestReplaysWithoutAHistory, TestServiceWithoutRecurrences, TestReportIsWithinTheScope
					continue
				}
				if !ok {
					t.Errorf("%s %s lists %d, and nothing provokes it", method, path, status)
					continue
				}
				tried++
				t.Run(op.OperationID+" "+code, func(t *testing.T) {
					a := c.make(t, c.methodFor(status, method), path)
					if a.status != status {
						t.Fatalf("%s %s is answered %d, the document says %d: %.200s", method, c.path, a.status, status, a.raw)
					}
					ct, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
					content, listed := response.Content[ct]
					if !listed {
						t.Errorf("the answer is %s, which the document does not list", ct)
					} else if ct != "text/plain" && ct != "text/csv" && ct != "text/event-stream" && ct != "application/x-ndjson" {
						var v any
						if err := json.Unmarshal([]byte(a.raw), &v); err != nil {
							t.Error(err)
						}
						doc.fits(t, op.OperationID+" "+code, content.Schema, v)
					}
				})
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d statuses were tried", tried)
	}
}

func (c call) make(t *testing.T, method, path string) answer {
	t.Helper()
	_, a := c.made(t, method, path)
	return a
}

// methodFor returns the method that provokes an answer with a status.
func (c call) methodFor(status int, method string) string {
	if c.head && status == http.StatusOK {
		return http.MethodHead
	}

	return strings.ToUpper(method)
}

// made makes the call, and returns the answer and the API that gave it.
func (c call) made(t *testing.T, method, path string, change ...func(*api.Options)) (*bench, answer) {
	t.Helper()
	b := newBench(t, append(change, withClients, func(o *api.Options) {
		o.Clients = append(o.Clients, auth.Client{Name: "narrow", Token: "token-of-narrow", Prefix: "app1:jobs:t", Role: auth.Admin})
		o.Clients = append(o.Clients, rolled...)
		o.Clients = append(o.Clients, auth.Client{Name: "spent", Token: "token-of-spent", Role: auth.Admin, Rate: 1.0 / 3600})
		o.History, o.Eraser, o.Replayer = oneEnding{o.Engine}, oneEnding{o.Engine}, &replayer{Engine: o.Engine}
		o.Tests = testsOf(o, nil, nil)
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("notifier_up 1\n")) })
	})...).as("token-of-all")
	id := b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(201).id()
	link := b.do("POST", "/v1/portal-links", `{"prefix":"app1"}`).is(201).id()
	if c.prepare != nil {
		c.prepare(b.engine)
	}
	if c.token != "" {
		b.token = c.token
	}
	if c.token == "token-of-spent" {
		b.do("GET", "/v1/routes", "").is(200)
	}
	if c.path != "" {
		path = strings.Replace(c.path, "LINK", link, 1)
	}
	body := strings.ReplaceAll(c.body, "ID", id)
	body = strings.Replace(body, "SEALED", b.engine.SealText("m17", "app1:jobs:t:1", notice.Content{Body: []byte("{}")}), 1)
	return b, b.do(method, path, body, c.header...)
}

// fits compares a value's shape with its schema: types, required members, and
// no member that the schema does not have.
func (d *document) fits(t *testing.T, at string, s schema, v any) {
	t.Helper()
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		s = d.Components.Schemas[name]
	}
	types, _ := s.Type.([]any)
	if one, ok := s.Type.(string); ok {
		types = []any{one}
	}
	if len(types) == 0 {
		return // anything
	}
	got := map[bool]string{true: "null"}[v == nil]
	switch x := v.(type) {
	case string:
		got = "string"
	case bool:
		got = "boolean"
	case float64:
		if got = "number"; x == float64(int64(x)) && types[0] == "integer" {
			got = "integer"
		}
	case []any:
		got = "array"
		for _, e := range x {
			if s.Items != nil {
				d.fits(t, at+"[]", *s.Items, e)
			}
		}
	case map[string]any:
		got = "object"
		for _, name := range s.Required {
			if _, ok := x[name]; !ok {
				t.Errorf("%s lacks %s", at, name)
			}
		}
		for name, e := range x {
			p, ok := s.Properties[name]
			if !ok && s.Properties != nil {
				t.Errorf("%s has %s, which the document does not know", at, name)
			}
			d.fits(t, at+"."+name, p, e)
		}
	}
	for _, want := range types {
		if want == got {
			return
		}
	}
	t.Errorf("%s is %s, the document says %v", at, got, types)
}
