package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/api/apitest"
	"notifier/internal/notice"
	"notifier/internal/store"
)

func TestReferenceIsUpToDate(t *testing.T) {
	want, err := api.Reference()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/api.md")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/api.md is not what the code says (%v); run go generate ./internal/api", err)
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
	prepare    func(e *apitest.Engine)
	token      string
}

const key = "/v1/notices/app1:jobs:t:1"

// provoke holds, by operation and status, the call that must be answered so.
// What all operations share is provoked by shared.
func provoke() map[string]map[int]call {
	move := func(to notice.State) func(*apitest.Engine) {
		return func(e *apitest.Engine) { e.Move("app1:jobs:t:1", to, notice.ReasonTimeout) }
	}
	claimed, dead := move(notice.Claimed), move(notice.Dead)
	full := func(e *apitest.Engine) { e.Fail(store.ErrFull) }
	huge := strings.Repeat(" ", 40<<20)
	const absent = "/v1/notices/app1:jobs:t:absent"
	m := map[string]map[int]call{
		"schedule": {201: {body: `{"key":"app2:a:b:new"}`}, 200: {body: `{"key":"app1:jobs:t:1"}`}, 400: {body: `{`}, 413: {body: huge},
			409: {body: `{"key":"app1:jobs:t:1","body":1}`}, 415: {header: []string{"Content-Type", "text/plain"}}, 422: {body: `{}`},
			507: {body: `{"key":"app2:a:b:new"}`, prepare: full}, 403: {body: `{"key":"app2:a:b:c"}`, token: "token-of-one"}},
		"scheduleBatch": {201: {body: `[{"key":"app2:a:b:new"}]`}, 200: {body: `[{"key":"app1:jobs:t:1"}]`},
			207: {body: `[{"key":"app1:jobs:t:1"},{}]`},
			400: {body: `[{`}, 413: {body: huge}, 415: {header: []string{"Content-Type", "text/plain"}}, 422: {body: `[]`},
			507: {body: `{"key":"app2:a:b:new"}`, prepare: full}},
		"list": {200: {}, 400: {path: "/v1/notices?%zz"}, 404: {path: "/v1/notices?route=none"}, 422: {path: "/v1/notices?limit=0"}},
		"get":  {200: {path: key}, 404: {path: absent}, 422: {path: "/v1/notices/x"}, 400: {path: key + "?%zz"}},
		"reschedule": {200: {path: key, body: `{"delay":1}`}, 404: {path: absent, body: `{"delay":1}`}, 409: {path: key, body: `{"delay":1}`,
			prepare: dead},
			422: {path: key, body: `{}`}},
		"cancel": {200: {path: key}, 404: {path: absent}, 409: {path: key, prepare: move(notice.Delivered)}, 422: {path: "/v1/notices/x"}},
		"fire": {200: {path: key + "/fire"}, 404: {path: absent + "/fire"}, 409: {path: key + "/fire", prepare: dead},
			422: {path: "/v1/notices/x/fire"}},
		"redrive": {200: {path: key + "/redrive", prepare: dead}, 404: {path: absent + "/redrive"}, 409: {path: key + "/redrive"},
			422: {path: "/v1/notices/x/redrive"}},
		"listRoutes": {200: {path: "/v1/routes"}, 400: {path: "/v1/routes?%zz"}, 422: {path: "/v1/routes?x=1"}},
		"redriveRoute": {200: {path: "/v1/routes/jobs/redrive"}, 400: {path: "/v1/routes/jobs/redrive?%zz"},
			404: {path: "/v1/routes/none/redrive"},
			422: {path: "/v1/routes/jobs/redrive?dry_run=x"}},
		"stats":   {200: {path: "/v1/stats"}, 400: {path: "/v1/stats?%zz"}, 422: {path: "/v1/stats?x=1"}},
		"healthz": {200: {path: "/healthz"}},
		"readyz":  {200: {path: "/readyz"}, 503: {path: "/readyz", prepare: func(e *apitest.Engine) { e.SetReady(api.Readiness{}) }}},
		"metrics": {200: {path: "/metrics"}, 403: {path: "/metrics", token: "token-of-one"}},
		"openapi": {200: {path: "/openapi.json"}},
	}
	for _, verb := range []string{"ack", "nack", "defer"} {
		m[verb] = map[int]call{200: {path: key + "/" + verb, body: `{"attempt":1}`, prepare: claimed}, 404: {path: absent + "/" + verb,
			body: `{"attempt":1}`},
			409: {path: key + "/" + verb, body: `{"attempt":1}`}, 422: {path: key + "/" + verb, body: `{}`}}
	}
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
	case 400:
		good.body = "{"
	case 401:
		good.token = "wrong"
	case 406:
		good.header = []string{"Accept", "text/html"}
	case 413:
		good.body = strings.Repeat(" ", 1<<20)
	case 415:
		good.header = []string{"Content-Type", "text/plain"}
	case 503:
		good.prepare = then(good.prepare, func(e *apitest.Engine) { e.Fail(store.ErrUnavailable) })
	default:
		return good, false
	}
	return good, true
}

func then(a, b func(*apitest.Engine)) func(*apitest.Engine) {
	return func(e *apitest.Engine) {
		if a != nil {
			a(e)
		}
		b(e)
	}
}

// Every operation answers every status it lists, with what the document says.
func TestContract(t *testing.T) {
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
					c, ok = shared(status, calls[op.OperationID][200])
				}
				if status == 500 || op.OperationID == "metrics" && status == 404 {
					continue // TestPanicAndLog, TestMetricsAreServed
				}
				if !ok {
					t.Errorf("%s %s lists %d, and nothing provokes it", method, path, status)
					continue
				}
				a := c.make(t, strings.ToUpper(method), path)
				if tried++; a.status != status {
					t.Errorf("%s: %s %s is answered %d, the document says %d: %.200s", op.OperationID, method, c.path, a.status, status, a.raw)
					continue
				}
				ct, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
				content, listed := response.Content[ct]
				if !listed {
					t.Errorf("%s answers %d with %s, which the document does not list", op.OperationID, status, ct)
				} else if ct != "text/plain" && ct != "application/x-ndjson" {
					var v any
					if err := json.Unmarshal([]byte(a.raw), &v); err != nil {
						t.Errorf("%s: %v", op.OperationID, err)
					}
					doc.fits(t, op.OperationID+" "+code, content.Schema, v)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d statuses were tried", tried)
	}
}

func (c call) make(t *testing.T, method, path string) answer {
	t.Helper()
	b := newBench(t, withClients, func(o *api.Options) {
		o.Clients = append(o.Clients, api.Client{Name: "narrow", Token: "token-of-narrow", Prefix: "app1:jobs:t"})
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("notifier_up 1\n")) })
	}).as("token-of-all")
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(201)
	if c.prepare != nil {
		c.prepare(b.engine)
	}
	if c.token != "" {
		b.token = c.token
	}
	if c.path != "" {
		path = c.path
	}
	return b.do(method, path, c.body, c.header...)
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
