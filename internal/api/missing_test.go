package api_test

import (
	"fmt"
	"strings"
	"testing"

	"notifier/internal/wire"
)

// An answer without the shards of an unreachable node has the member missing. Only a client without a prefix
// gets the node's address.
func TestAnswersSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	calls := [][2]string{{"GET", "/v1/notices"}, {"GET", "/v1/stats"}, {"GET", "/v1/routes"}, {"GET", "/v1/dead"},
		{"POST", "/v1/routes/fixed/redrive"}, {"POST", "/v1/routes/fixed/redrive?dry_run=true"}}
	for _, c := range calls {
		if a := b.as("token-of-all").do(c[0], c[1], "").is(200); strings.Contains(a.raw, "missing") {
			t.Errorf("%s: nothing is missing: %s", c[1], a.raw)
		}
	}
	b.engine.Miss("10.0.0.3:6379", "10.0.0.4:6379")
	for _, c := range calls {
		b.as("token-of-all").do(c[0], c[1], "").is(200).says(`"missing":["10.0.0.3:6379","10.0.0.4:6379"]`)
		a := b.as("token-of-one").do(c[0], c[1], "").is(200).says(`"missing":["a node of Redis"]`)
		if strings.Contains(a.raw, "10.0.0") {
			t.Errorf("%s shows the address of Redis to a client with a prefix: %s", c[1], a.raw)
		}
	}
}

// A call that needs an unreachable node fails. Only a client without a prefix gets the node's address.
func TestAProblemNamesTheNodeThatIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	b.engine.Fail(fmt.Errorf("audit: %w", &wire.NodeError{Node: "10.0.0.3:6379", Err: wire.ErrUnavailable}))
	b.as("token-of-all").do("GET", "/v1/audit", "").is(503).says("Redis node 10.0.0.3:6379: ")
	if a := b.as("token-of-one").do("GET", "/v1/audit", "").is(503); strings.Contains(a.raw, "10.0.0") {
		t.Errorf("a client with a prefix gets the address of Redis: %s", a.raw)
	}
}
