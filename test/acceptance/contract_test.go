//go:build !quick

package acceptance

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	tokenAll = "token-of-the-operator-0123456789"
	tokenOne = "token-of-application-1-0123456789"
)

// answer of a raw call.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// call makes a raw call. The path is sent unchanged.
func (s *service) call(ctx context.Context, token, method, path, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	from := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: string(raw), took: time.Since(from)}, err
}

// must is call, where only the answer may be wrong.
func (s *service) must(token, method, path, body string) answer {
	s.t.Helper()
	a, err := s.call(s.t.Context(), token, method, path, body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// document is the checked part of an OpenAPI document.
type document struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Responses   map[string]struct {
			Content map[string]struct {
				Schema shape `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]shape `json:"schemas"`
	} `json:"components"`
}

type shape struct {
	Ref        string           `json:"$ref"`
	Items      *shape           `json:"items"`
	Properties map[string]shape `json:"properties"`
	Required   []string         `json:"required"`
}

// fits fails the test if a value lacks a member that the schema requires, or has one that
// the schema does not list.
func (d *document) fits(t *testing.T, at string, v any, s shape) {
	t.Helper()
	if s.Ref != "" {
		s = d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				t.Errorf("%s lacks %s", at, name)
			}
		}
		for name, member := range v {
			p, ok := s.Properties[name]
			if !ok && len(s.Properties) > 0 {
				t.Errorf("%s has %s, which the document does not know", at, name)
			} else if ok {
				d.fits(t, at+"."+name, member, p)
			}
		}
	case []any:
		for i, item := range v {
			if s.Items != nil {
				d.fits(t, at+"["+strconv.Itoa(i)+"]", item, *s.Items)
			}
		}
	}
}

// The answers of the built binary on a real Redis are those of its document, in the states that a call may meet. The test of the
// same name in package api makes every call of the document.
func TestContract(t *testing.T) {
	free := make(chan struct{})
	rec := listen(t, func(w http.ResponseWriter, r *http.Request, h hit) {
		switch {
		case strings.Contains(h.key, ":dead:"):
			w.WriteHeader(http.StatusGone)
		case strings.Contains(h.key, ":held:"):
			select {
			case <-free:
			case <-r.Context().Done():
			}
		}
	})
	defer close(free)
	db := newRedis(t)
	const secret = "SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	s := launch(t, db.URL(), route("pay", "app1:pay", rec.url, "TIMEOUT=60s", secret),
		route("queue", "app1:queue", "list:out", "ACK=report", "TIMEOUT=60s"),
		route("host", "app1:host", "notice", "SIGN_PER=host", secret),
		[]string{"NOTIFIER_CLIENTS=all,one", "NOTIFIER_CLIENT_ALL_TOKEN=" + tokenAll, "NOTIFIER_CLIENT_ONE_TOKEN=" + tokenOne,
			"NOTIFIER_CLIENT_ONE_PREFIX=app1", "NOTIFIER_CLIENT_ALL_ROLE=admin", "NOTIFIER_CLIENT_ONE_ROLE=produce",
			"NOTIFIER_HISTORY_URL=sqlite://" + filepath.Join(t.TempDir(), "history.db")})
	var doc document
	if err := json.Unmarshal([]byte(s.must(tokenAll, "GET", "/openapi.json", "").body), &doc); err != nil ||
		!strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Fatalf("the document: %v, version %q", err, doc.OpenAPI)
	}
	state := func(key, want string) {
		t.Helper()
		await(t, waitTimeout, key+" "+want, func() bool {
			return strings.Contains(s.must(tokenAll, "GET", "/v1/notices/"+key, "").body, `"state":"`+want+`"`)
		})
	}
	// call makes one call and holds its answer against the document; false if
	// there was none such as wanted.
	call := func(token, op, at, body string, want int) bool {
		t.Helper()
		method, path, _ := strings.Cut(op, " ")
		if _, ok := doc.Paths[path][strings.ToLower(method)]; !ok {
			t.Errorf("%s is not in the document", op)
			return false
		}
		if strings.Contains(body, `"ID"`) { // a placeholder for the id of the path's notice
			body = strings.Replace(body, "ID", s.id(strings.Split(at, "/")[3]), 1)
		}
		a := s.must(token, method, at, body)
		if a.status != want {
			t.Errorf("%s %s %s: %d, want %d\n%s", method, at, body, a.status, want, a.body)
			return false
		}
		said, ok := doc.Paths[path][strings.ToLower(method)].Responses[strconv.Itoa(a.status)]
		if !ok {
			t.Errorf("%s answers %d, which the document does not list", op, a.status)
		}
		kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
		content, ok := said.Content[kind]
		if !ok {
			t.Errorf("%s %d answers with %s, which the document does not list", op, a.status, kind)
		}
		if strings.HasSuffix(kind, "json") {
			var v any
			if err := json.Unmarshal([]byte(a.body), &v); err != nil {
				t.Errorf("%s: %v", op, err)
			}
			doc.fits(t, op+" "+strconv.Itoa(a.status), v, content.Schema)
		}
		return true
	}
	for _, c := range []struct {
		token, path string
		want        int
	}{
		{tokenAll, "host/secret?host=shop.example", 200},
		{tokenAll, "host/secret", 422},
		{tokenAll, "none/secret?host=shop.example", 404},
		{tokenAll, "pay/secret", 409}, // SIGN_PER=route: the configuration has it
		{tokenOne, "host/secret?host=shop.example", 403},
	} {
		call(c.token, "GET /v1/routes/{name}/secret", "/v1/routes/"+c.path, "", c.want)
	}
	const n = "/v1/notices/app1:pay:"
	for _, c := range []struct {
		op, path, body string
		want           int
		then           func() // waits for a condition before the next call
	}{
		{"GET /healthz", "/healthz", "", 200, nil},
		{"GET /readyz", "/readyz", "", 200, nil},
		{"GET /metrics", "/metrics", "", 200, nil},
		{"GET /openapi.json", "/openapi.json", "", 200, nil},
		{"POST /v1/notices", "/v1/notices", `{"key":"app1:pay:later:1","delay":"1h","body":{"a":1}}`, 201, nil},
		{"POST /v1/notices", "/v1/notices", `{"key":"app1:pay:later:1","delay":"1h","body":{"a":1}}`, 200, nil},
		{"POST /v1/notices", "/v1/notices", `{"key":"app1:pay:later:1","delay":"1h","body":{"a":2}}`, 409, nil},
		{"POST /v1/notices", "/v1/notices", `{"key":"app1:pay:later:1","delay":"1h","body":{"a":2},"on_duplicate":"keep"}`, 200, nil},
		{"POST /v1/notices", "/v1/notices", `{"key":"app1:pay:later:1","delay":"2h","body":{"a":2},"on_duplicate":"replace"}`, 201, nil},
		{"POST /v1/notices", "/v1/notices", `{"key":"app1:pay:later:1","delay":"1h","due":"2030-01-01T00:00:00Z"}`, 422, nil},
		{"POST /v1/notices", "/v1/notices", `{"key":"app9:pay:later:1"}`, 422, nil},
		{"POST /v1/notices", "/v1/notices", `{"key":"app1:pay:later:1"`, 400, nil},
		{"POST /v1/notices/batch", "/v1/notices/batch", `[{"key":"app1:pay:batch:1","delay":"1h"},{"key":"app1:pay:batch:2","delay":"1h"}]`, 201,
			nil},
		{"POST /v1/notices/batch", "/v1/notices/batch", `[{"key":"app1:pay:batch:1","delay":"1h"}]`, 200, nil},
		{"POST /v1/notices/batch", "/v1/notices/batch", `[{"key":"app1:pay:batch:3","delay":"1h"},{"key":"x"}]`, 207, nil},
		{"GET /v1/notices/{key}", n + "later:1", "", 200, nil},
		{"GET /v1/notices/{key}", n + "none:1", "", 404, nil},
		{"GET /v1/notices", "/v1/notices?limit=2", "", 200, nil},
		{"PATCH /v1/notices/{key}", n + "later:1", `{"delay":"3h"}`, 200, nil},
		{"PATCH /v1/notices/{key}", n + "none:1", `{"delay":"3h"}`, 404, nil},
		{"POST /v1/notices/{key}/fire", n + "later:1/fire", "", 200, func() { state("app1:pay:later:1", "delivered") }},
		{"POST /v1/notices/{key}/fire", n + "later:1/fire", "", 409, nil},
		{"DELETE /v1/notices/{key}", n + "later:1", "", 409, nil},
		{"DELETE /v1/notices/{key}", n + "batch:1", "", 200, nil},
		{"DELETE /v1/notices/{key}", n + "batch:1", "", 200, nil}, // again
		{"POST /v1/notices", "/v1/notices", `{"key":"app1:pay:held:1"}`, 201, func() { rec.waitFor("app1:pay:held:1", 1) }},
		{"DELETE /v1/notices/{key}", n + "held:1", "", 200, nil}, // in flight
		{"POST /v1/notices", "/v1/notices", `{"key":"app1:pay:dead:1"}`, 201, func() { state("app1:pay:dead:1", "dead") }},
		{"PATCH /v1/notices/{key}", n + "dead:1", `{"delay":"3h"}`, 409, nil},
		{"POST /v1/notices/{key}/redrive", n + "dead:1/redrive", "", 200, func() {
			rec.waitFor("app1:pay:dead:1", 2)
			state("app1:pay:dead:1", "dead")
		}},
		{"POST /v1/notices/{key}/redrive", n + "batch:2/redrive", "", 409, nil},
		{"POST /v1/routes/{name}/redrive", "/v1/routes/pay/redrive?dry_run=true", "", 200, nil},
		{"POST /v1/routes/{name}/redrive", "/v1/routes/pay/redrive", "", 200, func() { rec.waitFor("app1:pay:dead:1", 3) }},
		{"GET /v1/routes", "/v1/routes", "", 200, nil},
		{"POST /v1/routes/{name}/pause", "/v1/routes/pay/pause", "", 200, nil},
		{"POST /v1/routes/{name}/resume", "/v1/routes/pay/resume", "", 200, nil},
		{"POST /v1/routes/{name}/pause", "/v1/routes/none/pause", "", 404, nil},
		{"POST /v1/routes/{name}/release", "/v1/routes/app1:pay/release", "", 404, nil},
		{"POST /v1/notices/batch", "/v1/notices/batch", `[{"key":"app1:queue:q:1"},{"key":"app1:queue:q:2"},{"key":"app1:queue:q:3"}]`,
			201, func() {
				for _, id := range []string{"1", "2", "3"} {
					state("app1:queue:q:"+id, "claimed")
				}
				await(t, waitTimeout, "three entries in the list", func() bool { return db.Client().LLen(t.Context(), "out").Val() == 3 })
			}},
		{"POST /v1/notices/{key}/ack", "/v1/notices/app1:queue:q:1/ack", `{"attempt":1,"id":"ID"}`, 200,
			func() { state("app1:queue:q:1", "delivered") }},
		{"POST /v1/notices/{key}/nack", "/v1/notices/app1:queue:q:2/nack", `{"attempt":1,"id":"ID","permanent":true}`, 200,
			func() { state("app1:queue:q:2", "dead") }},
		{"POST /v1/notices/{key}/defer", "/v1/notices/app1:queue:q:3/defer", `{"attempt":1,"id":"ID","after":"1h"}`, 200,
			func() { state("app1:queue:q:3", "scheduled") }},
		{"POST /v1/notices/{key}/ack", "/v1/notices/app1:queue:q:1/ack", `{"attempt":1,"id":"ID"}`, 200, nil}, // again
		{"POST /v1/notices/{key}/ack", "/v1/notices/app1:queue:q:1/ack", `{"attempt":1,"id":"msg_another"}`, 409, nil},
		{"POST /v1/notices/{key}/ack", "/v1/notices/app1:queue:q:1/ack", `{"attempt":1}`, 422, nil},
		{"POST /v1/notices/{key}/ack", "/v1/notices/app1:queue:none:1/ack", `{"attempt":1,"id":"msg_1"}`, 404, nil},
		{"GET /v1/stats", "/v1/stats", "", 200, nil},
		{"GET /.well-known/jwks.json", "/.well-known/jwks.json", "", 200, nil},
		{"GET /v1/instances", "/v1/instances", "", 200, nil},
		{"GET /v1/notices", "/v1/notices?state=dead", "", 200, nil},
		{"GET /v1/notices", "/v1/notices?limit=0", "", 422, nil},
	} {
		if call(tokenAll, c.op, c.path, c.body, c.want) && c.then != nil {
			c.then()
		}
	}
	hour := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	dead := s.must(tokenAll, "GET", n+"dead:1", "").body
	for _, c := range []struct {
		op, path, body string
		want           int
	}{
		{"GET /v1/audit", "/v1/audit?limit=5", "", 200},
		{"GET /v1/audit", "/v1/audit?limit=0", "", 422},
		{"DELETE /v1/notices/{key}", n + "dead:1", "", 200},
		{"POST /v1/notices/restore", "/v1/notices/restore", "[" + dead + "]", 201},
		{"POST /v1/notices/restore", "/v1/notices/restore", "[" + dead + "]", 200}, // again
		{"POST /v1/notices/restore", "/v1/notices/restore", `[{"key":"x"}]`, 207},
		{"POST /v1/replays", "/v1/replays", `{"id":"r1","since":"` + hour + `","outcome":["delivered"],"rate":"1/s","dry_run":true}`, 200},
		{"POST /v1/replays", "/v1/replays", `{"id":"r1","since":"` + hour + `","outcome":["delivered"],"rate":"1/s"}`, 201},
		{"POST /v1/replays", "/v1/replays", `{"id":"r1","since":"` + hour + `","outcome":["dead"]}`, 409},
		{"POST /v1/replays", "/v1/replays", `{"outcome":["none"]}`, 422},
		{"GET /v1/replays", "/v1/replays", "", 200},
		{"GET /v1/replays/{id}", "/v1/replays/r1", "", 200},
		{"GET /v1/replays/{id}", "/v1/replays/none", "", 404},
		{"DELETE /v1/replays/{id}", "/v1/replays/r1", "", 200},
		{"POST /v1/replays/{id}/resume", "/v1/replays/r1/resume", "", 200},
		{"GET /v1/history", "/v1/history?limit=2", "", 200},
		{"GET /v1/history", "/v1/history?limit=0", "", 422},
		{"DELETE /v1/history", "/v1/history?key=app1:pay:later:1", "", 200},
		{"DELETE /v1/history", "/v1/history", "", 422},
		{"POST /v1/portal-links", "/v1/portal-links", `{"prefix":"app1","ttl":"1h"}`, 201},
		{"POST /v1/portal-links", "/v1/portal-links", `{"ttl":"x"}`, 422},
		{"DELETE /v1/portal-links/{id}", "/v1/portal-links/none", "", 404},
	} {
		if c.op == "POST /v1/replays" && c.want == 200 { // there must be something to replay
			await(t, waitTimeout, "a row of the delivered notice", func() bool {
				return strings.Contains(s.must(tokenAll, "GET", "/v1/history?key=app1:pay:later:1", "").body, `"outcome":"delivered"`)
			})
		}
		call(tokenAll, c.op, c.path, c.body, c.want)
	}
}

// id is that of the notice which the key holds.
func (s *service) id(key string) string {
	s.t.Helper()
	var n struct{ ID string }
	if err := json.Unmarshal([]byte(s.must(tokenAll, "GET", "/v1/notices/"+key, "").body), &n); err != nil || n.ID == "" {
		s.t.Fatalf("%s has the id %q, %v", key, n.ID, err)
	}
	return n.ID
}

// waitFor waits until a notice has come n times.
func (r *receiver) waitFor(key string, n int) {
	r.t.Helper()
	await(r.t, waitTimeout, key+" at the receiver", func() bool { return len(r.of(key)) >= n })
}
