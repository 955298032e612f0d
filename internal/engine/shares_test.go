package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"notifier/internal/auth"
	"notifier/internal/jobs"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Of so many clients each has a share of two pauses and limits, of one redirect, and of 20 links.
const sharers = store.MaxReceivers / 2

// One client uses up its share of each bound that all clients have together, and another one has still its own.
func TestOneClientCannotUseUpAnothersShare(t *testing.T) {
	t.Parallel()
	names := make([]string, sharers)
	for i := range names {
		names[i] = fmt.Sprint("client", i)
	}
	r := testRoute("orders", "app1")
	r.Target.Kind = route.KindNotice
	w := start(t, testkit.SharedRedis(t), newSink(1), func(o *Options) { o.Clients = names }, r)
	ctx := t.Context()
	var full *store.FullError
	var redirects *jobs.FullError
	var links *auth.LinksFull
	for what, x := range map[string]struct {
		most int
		full any
		use  func(client string, i int) error
	}{
		"pauses": {2, &full, func(client string, i int) error {
			return w.PauseReceiver(ctx, client, receivers.Receiver{Host: fmt.Sprint(client, i, ".example")}, time.Time{}, 0)
		}},
		"redirects": {1, &redirects, func(client string, i int) error {
			x, err := w.MakeRedirect(ctx, jobs.Rule{From: "https://old.example", To: "https://new.example"}, client)
			if err == nil { // it may have ended already
				err = w.jobStore().Add(ctx, &jobs.Job{ID: fmt.Sprint("rdr_", client, i), Client: client, State: jobs.Stopped,
					Rule: x.Rule, Made: x.Made, Changed: x.Changed}, jobs.MaxJobs)
			}
			return err
		}},
		"links": {20, &links, func(client string, i int) error {
			return w.KeepLink(ctx, client, fmt.Sprint(client, i), "{}", time.Hour)
		}},
	} {
		for i := range x.most + 1 {
			if err := x.use(names[0], i); (i == x.most) != (err != nil) || err != nil && !errors.As(err, x.full) {
				t.Errorf("%s: %d of %d: %v", what, i+1, x.most, err)
			}
		}
		if err := x.use(names[1], 0); err != nil {
			t.Errorf("%s: another client has none: %v", what, err)
		}
	}
	err := w.LimitReceiver(ctx, names[0], receivers.Limit{Receiver: receivers.Receiver{Host: "x.example"}, Rate: 1})
	if !errors.As(err, &full) || full.Most != 2 || full.All {
		t.Errorf("limits have a share beside that of pauses: %v", err)
	}
}
