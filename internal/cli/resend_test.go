package cli

import (
	"context"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/callback"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

func TestSendTestOfANotice(t *testing.T) {
	t.Parallel()
	result := notice.DeliveredResult(200)
	d := newTestCLI(t, func(o *api.Options) {
		probe := func(context.Context, *route.Route, *notice.Notice) callback.Exchange {
			return callback.Exchange{Status: result.Status, ResponseBody: result.Response, Duration: 12500 * time.Microsecond,
				Next: 15 * time.Second, Result: result}
		}
		o.Tests = api.NewTestSender(api.TestOptions{Routes: o.Routes, Probe: probe})
	})
	const key = "app1:orders:t:1"
	d.run(0, "schedule", key, "--to", "https://shop.example/hook", "--delay", "1h")
	out, _ := d.run(0, "send-test", key)
	contains(t, out, "shop.example: 200 OK after 12.5ms", "The receiver acknowledged the test.")

	result = notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonStatus5xx, Status: 503, Response: "database"}
	out, _ = d.run(1, "send-test", key)
	contains(t, out, "shop.example: 503 Service Unavailable after 12.5ms", "database", "did not acknowledge the test: status_5xx",
		"would be retried in 15s")
	out, _ = d.run(1, "send-test", key, "--json")
	contains(t, out, `"reason": "status_5xx"`, `"duration_ms": 12.5`)

	d.run(0, "schedule", "app1:jobs:t:1")
	_, errs := d.run(1, "send-test", "app1:jobs:t:1")
	contains(t, errs, "does not deliver over HTTP")
	_, errs = d.run(1, "send-test", "app1:orders:t:none")
	contains(t, errs, "no notice is kept")
	_, errs = d.run(2, "send-test", key, "--to", "https://shop.example/")
	contains(t, errs, "are for a route")
}

// Regression test: a redrive of many said "0 of 1", and not that it skips expired notices.
func TestRedriveNamesExpiredNotices(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	n := &notice.Notice{Key: "app1:jobs:t:1", Route: "app1:jobs", Made: notice.MadeAt(now.Add(-time.Hour)), Due: now.Add(-time.Hour),
		Reason: notice.ReasonExpired, Content: notice.Content{Expires: now.Add(-time.Minute)}}
	d.engine.Add(store.Found{Notice: n, State: notice.Dead, SettledAt: now.Add(-time.Minute)})
	out, errs := d.run(0, "redrive", "--route", "jobs")
	contains(t, out, "0 of 1 dead letters of route jobs redriven")
	contains(t, errs, "notifier redrive KEY --expires 10m redrives an expired one")
	out, _ = d.run(0, "redrive", "--route", "jobs", "--job", "--dry-run")
	contains(t, out, "redrive would change 0 notices at 100/s", "not changed, expired: 1 notice\n")
	_, errs = d.run(2, "redrive", n.Key)
	contains(t, errs, "want a later expires")
	d.run(0, "redrive", n.Key, "--expires", "10m")
}
