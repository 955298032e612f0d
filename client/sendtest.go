package client

import (
	"context"
	"time"
)

// TestResult is the result of a test call to a receiver.
type TestResult struct {
	Raw
	Key        string  `json:"key"`
	Host       string  `json:"host"`        // that was called
	Outcome    string  `json:"outcome"`     // delivered if the test was acknowledged, else retry, dead or deferred
	Reason     string  `json:"reason"`      // why it was not acknowledged, such as status_5xx, timeout or blocked
	Status     int     `json:"status"`      // 0 without a response
	DurationMS float64 `json:"duration_ms"` // with decimals
	// Response is the first 512 bytes of the response's body. Without a response, it is the error of the call. Clients
	// with a prefix do not get it.
	Response string `json:"response"`
	Final    bool   `json:"final"`   // a notice with this response would be dead
	NextMS   int64  `json:"next_ms"` // a notice with this response would be retried after that time; 0 if not
}

// Acknowledged reports whether the receiver acknowledged the test.
func (r *TestResult) Acknowledged() bool { return r.Outcome == "delivered" }

// Next is NextMS as a duration.
func (r *TestResult) Next() time.Duration { return time.Duration(r.NextMS) * time.Millisecond }

// SendTest sends one signed callback with a test body to the receiver of the stored notice with that key. The notice
// does not change. If the receiver rejects the callback or does not answer, the result says so, and the error is nil.
// The error is a [*Problem] with status 409 if the route does not deliver over HTTP, and 429 after too many tests: a
// client may send three at once to a route, then six a minute.
func (c *Client) SendTest(ctx context.Context, key string) (*TestResult, error) {
	r := &TestResult{}
	return r, c.into(ctx, request{method: "POST", path: []string{"v1", "notices", key, "test"}}, r)
}
