//go:build !quick

package cli

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// Within a minute every page shows traffic: a failing and a hanging receiver, dead letters, the history, a replay, and the
// audit of operators.
func TestKeepFillsEveryPageWithinAMinute(t *testing.T) {
	began := time.Now()
	_, get, end := startKeep(t, true)
	defer end()
	for path, want := range map[string]string{"/ui/": "breaker open", "/ui/notices": "demo:pay:notice:", "/ui/dead": "HTTP 500",
		"/ui/receivers": "127.0.0.1:", "/ui/history": "demo:refund:notice:", "/ui/replays": "demo:pay", "/ui/routes": "parcel",
		"/ui/audit": "demo:order"} {
		testkit.Until(t, path+" shows "+want, func() bool { return strings.Contains(get(path), want) })
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}
