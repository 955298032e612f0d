package listener

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/route"
	"notifier/internal/testkit"
)

// limited returns a client whose user has all rights except on channels that are not listed. set changes
// its rights.
func limited(t *testing.T, srv *testkit.Redis, channels ...string) (c *redis.Client, set func(rules ...string)) {
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

// A refused pattern once ended the subscription of all routes, so that each notice was late by the grace.
func TestRefusedPatternDoesNotAffectOtherRoutes(t *testing.T) {
	srv := testkit.StartRedis(t)
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
	logged := logs.FilterMessageSnippet("keyspace events are refused")
	if logged.Len() == 0 || !strings.Contains(logged.All()[0].ContextMap()["remedy"].(string), "ACL SETUSER svc &__keyspace@0__:old:*, ") {
		t.Errorf("logged: %v", logged.All())
	}
	set("&__keyspace@0__:old:*")
	e.until(t, "the granted pattern", func() bool { return slices.Contains(e.adopting, true) })
	if err := srv.Client().Set(ctx, "old:m:t:1", "1", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	e.until(t, "its events", func() bool { return slices.Contains(e.keyspace, "old old:m:t:1 set") })
	if n := logs.FilterMessageSnippet("keyspace events are refused").Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
	e.do(func() {
		if e.begun != 1 {
			t.Errorf("the subscription to expired events began %d times", e.begun)
		}
	})
}

// If the channels are refused, events count as stopped, and the log has the remedy.
func TestRefusedChannelsAreLoggedWithRemedy(t *testing.T) {
	srv := testkit.StartRedis(t)
	c, set := limited(t, srv)
	l, e, logs := newListener(t, c, srv.Namespace(), func(o *Options) { o.Routes = routes(t, true) })
	run(t, l)
	e.until(t, "the refusal", func() bool { return slices.Equal(e.events, []bool{false}) })
	logged := logs.FilterMessageSnippet("expired events do not arrive")
	if logged.Len() != 1 || !strings.Contains(logged.All()[0].ContextMap()["remedy"].(string),
		"ACL SETUSER svc &__keyevent@0__:expired &notifier:wake, ") {
		t.Errorf("logged: %v", logged.All())
	}
	set("&*")
	e.until(t, "the subscription", func() bool {
		return e.begun == 1 && slices.Equal(e.events, []bool{false, true}) && slices.Contains(e.adopting, true)
	})
}

func TestSilentKeyspaceSubscriptionIsReplaced(t *testing.T) {
	srv := testkit.StartRedis(t)
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
