package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/engine/enginetest"
	"notifier/internal/fleet"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/store"
)

// besides adds everything that another client, of app2, can have to an engine. Its receivers are those of the calls, so that an
// answer about a host would show them.
type besides struct{ *enginetest.Engine }

// Health has a failing receiver of the other client.
func (b besides) Health(context.Context) ([]receivers.RouteHealth, error) {
	return []receivers.RouteHealth{{Prefix: "app2", Counted: friday,
		Receivers: []receivers.Health{{Name: "shop.example:443", Since: friday, Failures: 3,
			LastAttempt: friday, Status: 500, Reason: "status_5xx", Waiting: 2}}}}, nil
}

func (b besides) fill(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	var errs []error
	for id, to := range map[string]notice.State{"1": notice.Scheduled, "absent": notice.Dead, "2": notice.Delivered, "3": notice.Cancelled} {
		_, err := b.Engine.Schedule(ctx, store.Request{Key: "app2:jobs:t:" + id, Content: notice.Content{Body: []byte(`"zeta"`)}})
		errs = append(errs, err)
		if to != notice.Scheduled {
			b.Move("app2:jobs:t:"+id, to, notice.ReasonTimeout)
		}
	}
	theirs := receivers.Receiver{Host: "shop.example", Prefix: "app2"}
	putRedirects(b.Engine, jobs.Job{ID: "rdr_zeta", State: jobs.Stopped, Client: "two",
		Rule: jobs.Rule{From: "https://shop.example/hooks", To: "https://zeta.example/in", Prefix: "app2"}})
	errs = append(errs, b.PauseReceiver(ctx, "two", theirs, time.Time{}, 0),
		b.LimitReceiver(ctx, "two", receivers.Limit{Receiver: theirs, Rate: 42}),
		b.Engine.Pause(ctx, "app2"), b.Audit(ctx, audit.Entry{Action: audit.Cancel, Key: "app2:jobs:t:3", Client: "two", Result: audit.Done}),
		b.BeginSession(ctx, "two", "", "zeta", time.Hour), b.KeepLink(ctx, "two", "zeta", "two", time.Hour))
	b.Tell(fleet.Figures{Routes: map[string]fleet.RouteFigures{"app2": {InFlight: 4242}},
		Hosts: []fleet.HostFigures{{Prefix: "app2", Host: "shop.example:443", InFlight: 4242, Breaker: "open", Calls: 4242}}})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// varying matches the parts that differ between equal answers.
var varying = regexp.MustCompile(`(msg|rdr|rpl)_[a-z0-9]+|"(id|url|cursor)":"[^"]*"|\d{4}-\d\d-\d\dT[0-9:.]+Z|\d{13}-\d+`)

// The answer to a client is the same whether another client has notices, receivers, pauses, limits, redirects, links and sessions or
// none. Each call is made for the client's own subjects, and for those of the other one.
func TestAnswersDoNotDependOnOtherClients(t *testing.T) {
	t.Parallel()
	var doc document
	if err := json.Unmarshal(api.Document("test"), &doc); err != nil {
		t.Fatal(err)
	}
	calls := provoke()
	for path, methods := range doc.Paths {
		for method, op := range methods {
			of := calls[op.OperationID]
			for _, status := range slices.Sorted(maps.Keys(of)) {
				if status > 201 { // the others fail by their form, or because Redis does
					continue
				}
				own := of[status]
				own.token = "token-of-one"
				theirs := own
				theirs.path, theirs.body = strings.ReplaceAll(own.path, "app1", "app2"), strings.ReplaceAll(own.body, "app1", "app2")
				theirs.path = strings.NewReplacer("/routes/jobs", "/routes/other", "rdr_done", "rdr_zeta", "rdr_stopped", "rdr_zeta", "LINK",
					"zeta").Replace(theirs.path)
				for whose, c := range map[string]call{"own": own, "theirs": theirs} {
					t.Run(op.OperationID+" "+whose, func(t *testing.T) {
						c.isolated(t, c.methodFor(status, method), path)
					})
				}
			}
		}
	}
}

// isolated makes the call with and without the other client, and compares the answers.
func (c call) isolated(t *testing.T, method, path string) {
	t.Helper()
	_, alone := c.made(t, method, path)
	c.prepare = then(c.prepare, func(e *enginetest.Engine) { besides{e}.fill(t) })
	_, both := c.made(t, method, path, func(o *api.Options) { o.Engine = besides{o.Engine.(*enginetest.Engine)} })
	got, want := varying.ReplaceAllString(both.raw, "~"), varying.ReplaceAllString(alone.raw, "~")
	if both.status != alone.status || got != want {
		t.Errorf("%s %s %s is answered %d %s\nwithout the other client %d %s", method, c.path, c.body, both.status, got, alone.status, want)
	}
}
