package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"notifier/internal/holds"
	"notifier/internal/redirect"
	"notifier/internal/redistest"
	"notifier/internal/route"
	"notifier/internal/session"
	"notifier/internal/store"
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
	w := start(t, redistest.Shared(t), newSink(1), func(o *Options) { o.Clients = names }, r)
	ctx := t.Context()
	var receivers *store.FullError
	var redirects *redirect.FullError
	var links *session.LinksFull
	for what, x := range map[string]struct {
		most int
		full any
		use  func(client string, i int) error
	}{
		"pauses": {2, &receivers, func(client string, i int) error {
			return w.PauseReceiver(ctx, client, holds.Receiver{Host: fmt.Sprint(client, i, ".example")}, time.Time{}, 0)
		}},
		"redirects": {1, &redirects, func(client string, i int) error {
			x, err := w.MakeRedirect(ctx, redirect.Rule{From: "https://old.example", To: "https://new.example"}, client)
			if err == nil { // it may have ended already
				err = w.redirectStore().Add(ctx, &redirect.Redirect{ID: fmt.Sprint("rdr_", client, i), Client: client, State: redirect.Stopped,
					Rule: x.Rule, Made: x.Made, Changed: x.Changed}, redirect.MaxKept)
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
	err := w.LimitReceiver(ctx, names[0], holds.Limit{Receiver: holds.Receiver{Host: "x.example"}, Rate: 1})
	if !errors.As(err, &receivers) || receivers.Most != 2 || receivers.All {
		t.Errorf("limits have a share beside that of pauses: %v", err)
	}
}
