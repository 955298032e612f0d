package clienttest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"notifier/client"
)

// sendTest makes a test call to the receiver of a notice.
func (s *Service) sendTest(r *http.Request, body []byte) (int, any) {
	noBody(body)
	n := s.find(r)

	if kind := targetKind(n.route.Target); kind != "notice" && kind != "http" {
		panic(conflict(n.state, "the route does not deliver over HTTP, so no test can be sent"))
	}

	test := s.fresh(&notice{key: testKey(n.route.Prefix), route: n.route, state: client.Claimed, due: s.now, createdAt: s.now,
		content: content{url: n.url, audience: n.audience, method: n.method, contentType: "application/json", body: []byte(`{"test":true}`)}})
	req, cancel := s.request(test)
	defer cancel()
	return http.StatusOK, testAnswer(n, req.URL, s.call(req, 0))
}

// testKey is the key of a test: the route's prefix, with test in place of the missing parts.
func testKey(prefix string) string {
	parts := strings.Split(prefix, ":")
	if prefix == "" {
		parts = nil
	}

	for len(parts) < 4 {
		parts = append(parts, "test")
	}

	return strings.Join(parts, ":")
}

// testAnswer shows the result of a test, with the step that a notice with this response would take.
func testAnswer(n *notice, address *url.URL, got result) map[string]any {
	r := client.TestResult{Key: n.key, Host: strings.ToLower(address.Hostname()), Status: got.status, Reason: got.reason,
		Response: got.response}
	steps := n.route.Retry
	switch {
	case got.reason == "":
		r.Outcome = "delivered"
	case got.deferred:
		r.Outcome, r.NextMS = "deferred", got.after.Milliseconds()
	case got.final:
		r.Outcome, r.Final = "dead", true
	case len(steps) == 0:
		r.Outcome, r.Final = "retry", true
	default:
		r.Outcome, r.NextMS = "retry", max(steps[0], got.after).Milliseconds()
	}

	return present(r, "duration_ms", "final")
}

// noBody refuses a body with members.
func noBody(body []byte) {
	var members map[string]json.RawMessage
	err := json.Unmarshal(body, &members)
	switch {
	case len(bytes.TrimSpace(body)) == 0 || err == nil && len(members) == 0:
	case json.Valid(body):
		panic(failed(http.StatusUnprocessableEntity, "this call takes no body"))
	default:
		panic(failed(http.StatusBadRequest, "the request's body is not JSON: %v", err))
	}
}
