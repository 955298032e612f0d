package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// An argument that the API refuses is a usage error, and printed once.
func TestRefusedArgumentIsUsageError(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	for line, want := range map[string]string{"list --state bogus": "--state", "get zzz": "KEY", "list --cursor x": "cursor",
		"cancel zzz": "KEY", "fire a:b:c": "KEY",
		"schedule zzz": "KEY", "audit --prefix a:b:c:d:e": "--prefix", "reschedule zzz --delay 1s": "KEY"} {
		_, errs := d.run(2, strings.Fields(line)...)
		contains(t, errs, want)
		if strings.Count(errs, "app:module:type:id") > 1 {
			t.Errorf("%s: the form is said twice: %s", line, errs)
		}
	}
	d.run(1, "get", "app1:jobs:t:none")
	d.run(1, "cancel", "app1:jobs:t:none", "zzz") // the first key could succeed another time
}

// Without a message a retried command seemed to hang for six seconds.
func TestRetriedCallIsReported(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	var calls atomic.Int32
	d.wrap = func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) <= 2 {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write([]byte(`{"title":"Service Unavailable","status":503,"detail":"Redis cannot be reached"}`))
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
	out, errs := d.run(0, "schedule", "app1:jobs:t:1", "--delay", "1h")
	contains(t, out, "scheduled")
	if errs != "notifier: retrying: 503 Service Unavailable: Redis cannot be reached\n" {
		t.Errorf("%q", errs)
	}
}

// Problems of the configuration are logged in the configured format.
func TestWrongConfigurationIsLoggedInLogFormat(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.deps.Serve = nil
	for _, format := range []string{"json", "console", ""} {
		d.env = []string{"NOTIFIER_ROUTES=a", "NOTIFIER_GRACE=never", "NOTIFIER_LOG_FORMAT=" + format}
		out, errs := d.runContext(context.Background(), 2, "serve")
		contains(t, errs, "NOTIFIER_GRACE", "NOTIFIER_ROUTE_A_PREFIX: is missing")
		for line := range strings.Lines(errs) {
			var e struct{ Level, Msg, Variable, Problem, Time string }
			err := json.Unmarshal([]byte(line), &e)
			if (err == nil) != (format == "json") || err == nil && (e.Level != "error" || e.Variable == "" || e.Problem == "" || e.Time == "") {
				t.Errorf("%q: %v", line, err)
			}
		}
		if out != "" {
			t.Errorf("%q", out)
		}
	}
	d.env = []string{"NOTIFIER_ROUTES=a", "NOTIFIER_LOG_FORMAT=json"} // other commands print for people
	_, errs := d.run(2, "routes")
	contains(t, errs, "wrong configuration:\n")
}
