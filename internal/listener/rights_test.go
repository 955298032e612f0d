package listener

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/redistest"
	"notifier/internal/route"
)

// limited is a client of a user that has all rights but to channels.
func limited(t *testing.T, srv *redistest.Server, channels ...string) (c *redis.Client, set func(rules ...string)) {
	t.Helper()
	set = func(rules ...string) {
		t.Helper()
		args := []any{"ACL", "SETUSER", "svc"}
		for _, r := range rules {
			args = append(args, r)
		}
		if err := srv.Client().Do(context.Background(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(append([]string{"on", ">password", "~*", "+@all", "resetchannels"}, channels...)...)
	c = redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "svc", Password: "password", DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c, set
}

// One pattern that was not granted ended the subscription of all routes: each
// notice was late by the grace, and the log named no remedy.
func TestARefusedPatternCostsNobodyElseTheirEvents(t *testing.T) {
	srv := redistest.Start(t)
	c, set := limited(t, srv, "&notifier:*", "&__keyevent@*__:expired", "&__keyspace@0__:other:*")
	l, e, logs := newListener(t, c, srv.Namespace(), func(o *Options) {
		var err error
		if o.Routes, err = route.NewTable([]*route.Route{{Name: "app1", Prefix: "app1"}, {Name: "old", Prefix: "old", Adopt: true},
			{Name: "other", Prefix: "other", Adopt: true}}); err != nil {
			t.Fatal(err)
		}
	})
	run(t, l)
	e.until(t, "the subscription and the refusal", func() bool { return e.begun == 1 && slices.Contains(e.adopting, false) })
	ctx := context.Background()
	for _, k := range []string{"app1:m:t:1", "other:m:t:1"} {
		if err := srv.Client().Set(ctx, k, "1", 20*time.Millisecond).Err(); err != nil {
			t.Fatal(err)
		}
	}
	e.until(t, "the events", func() bool {
		srv.Client().Exists(ctx, "app1:m:t:1", "other:m:t:1") // a touch lets them expire
		return slices.Contains(e.hints, "app1 app1:m:t:1") && slices.Contains(e.keyspace, "other other:m:t:1 set")
	})
	told := logs.FilterMessageSnippet("keyspace events are refused")
	if told.Len() == 0 || !strings.Contains(told.All()[0].ContextMap()["remedy"].(string), "ACL SETUSER svc &__keyspace@0__:old:*, ") {
		t.Errorf("told: %v", told.All())
	}
	set("&__keyspace@0__:old:*")
	e.until(t, "what is granted at last", func() bool { return slices.Contains(e.adopting, true) })
	if err := srv.Client().Set(ctx, "old:m:t:1", "1", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	e.until(t, "its events", func() bool { return slices.Contains(e.keyspace, "old old:m:t:1 set") })
	if n := logs.FilterMessageSnippet("keyspace events are refused").Len(); n != 1 {
		t.Errorf("it is told %d times", n)
	}
	e.do(func() {
		if e.begun != 1 {
			t.Errorf("the subscription to expired events began %d times", e.begun)
		}
	})
}

// Where the channels themselves are refused, nothing waits for events that do
// not come.
func TestRefusedChannelsAreToldWithTheRemedy(t *testing.T) {
	srv := redistest.Start(t)
	c, set := limited(t, srv)
	l, e, logs := newListener(t, c, srv.Namespace(), func(o *Options) { o.Routes = routes(t, true) })
	run(t, l)
	e.until(t, "the refusal", func() bool { return slices.Equal(e.events, []bool{false}) })
	told := logs.FilterMessageSnippet("expired events do not arrive")
	if told.Len() != 1 || !strings.Contains(told.All()[0].ContextMap()["remedy"].(string),
		"ACL SETUSER svc &__keyevent@0__:expired &notifier:wake, ") {
		t.Errorf("told: %v", told.All())
	}
	set("&*")
	e.until(t, "the subscription", func() bool {
		return e.begun == 1 && slices.Equal(e.events, []bool{false, true}) && slices.Contains(e.adopting, true)
	})
}

func TestASilentSubscriptionToKeyspaceEventsIsReplaced(t *testing.T) {
	srv := redistest.Start(t)
	l, e, _ := newListener(t, srv.Client(), srv.Namespace(), func(o *Options) {
		o.Routes = routes(t, true)
		o.Silence = 200 * time.Millisecond
	})
	run(t, l)
	e.until(t, "both subscriptions", func() bool { return e.begun == 1 && slices.Equal(e.adopting, []bool{true}) })
	srv.Pause()
	e.until(t, "the silence", func() bool { return slices.Contains(e.adopting, false) || l.Alive() == 0 })
	srv.Unpause()
	e.until(t, "both again", func() bool { return l.Alive() == 1 && e.adopting[len(e.adopting)-1] && len(e.adopting) > 1 })
}
