package clienttest

import (
	"net/http"
	"net/url"
	"strings"

	"notifier/client"
)

// sendTest makes a test call to the receiver of a notice.
func (s *Service) sendTest(r *http.Request, body []byte) (int, any, *problem) {
	if p := noBody(body); p != nil {
		return 0, nil, p
	}

	n, p := s.find(r)
	if p != nil {
		return 0, nil, p
	}

	if kind := targetKind(n.route.Target); kind != "notice" && kind != "http" {
		p := failed(http.StatusConflict, "the route does not deliver over HTTP, so no test can be sent")
		p.State = n.state
		return 0, nil, p
	}

	test := s.fresh(&notice{key: testKey(n.route.Prefix), route: n.route, state: client.Claimed, due: s.now, createdAt: s.now,
		content: content{url: n.url, audience: n.audience, method: n.method, contentType: "application/json", body: []byte(`{"test":true}`)}})
	req, cancel := s.request(test)
	defer cancel()
	s.mu.Unlock() // the receiver may call the API
	got := s.call(req, 0)
	s.mu.Lock()
	return http.StatusOK, testAnswer(n, req.URL, got), nil
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
func noBody(body []byte) *problem {
	if strings.TrimSpace(string(body)) == "null" {
		return nil
	}

	if m, p := fields(body, "body."); p != nil && m == nil {
		if p.Status == http.StatusBadRequest {
			return p
		}
		return failed(http.StatusUnprocessableEntity, "this call takes no body")
	}

	return nil
}
