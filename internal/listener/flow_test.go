package listener

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/testkit"
)

// last returns a condition: the last verdict is want.
func (e *recorder) last(want bool) func() bool {
	return func() bool { return len(e.events) > 0 && e.events[len(e.events)-1] == want }
}

// The shipped rights and most managed Redis services do not allow CONFIG. Events are observed anyway.
func TestEventsAreObservedWithoutConfig(t *testing.T) {
	srv := testkit.StartRedis(t)
	ctx := context.Background()
	c, set := limited(t, srv, "&*")
	set("-config")
	flags := func(value string) {
		t.Helper()
		if err := srv.Client().ConfigSet(ctx, "notify-keyspace-events", value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	flags("Ex")
	l, e, logs := newListener(t, c, srv.Namespace(), nil)
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	flags("")
	e.until(t, "the end of events", e.last(false))
	stopped := logs.FilterMessageSnippet("expired events do not arrive")
	if stopped.Len() != 1 || !strings.Contains(stopped.All()[0].ContextMap()["why"].(string), "CONFIG is refused, and the event") {
		t.Errorf("logged %v", stopped.All())
	}
	flags("Ex")
	e.until(t, "events again", e.last(true))
	if n := logs.FilterMessageSnippet("expired events arrive").Len(); n != 1 {
		t.Errorf("their return was logged %d times", n)
	}
	e.do(func() {
		if len(e.events) != 2 {
			t.Errorf("verdicts %v", e.events)
		}
	})
}

// Without CONFIG only the missing event of a touched timer shows that events do not arrive. They flow
// again after ten probes in a row.
func TestMissedSampleAndProbeStopEvents(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig("notify-keyspace-events Ex"))
	user, set := limited(t, srv, "&*")
	set("-config") // otherwise the listener would set the flags again
	l, e, _ := newListener(t, user, srv.Namespace(), func(o *Options) { o.Flags = time.Hour })
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	ctx, c := context.Background(), srv.Client()
	touch := func(key string) {
		t.Helper()
		if err := c.Set(ctx, key, "1", time.Millisecond).Err(); err != nil {
			t.Fatal(err)
		}
		l.Touched(ctx, []string{key})
		c.Exists(ctx, key)
	}
	sampled := func() *sample {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.flows[srv.Addr()].sample.Load()
	}
	touch("app1:m:t:1")
	e.until(t, "the event of the sample", func() bool { return len(e.hints) == 1 })
	if s := sampled(); s != nil {
		t.Errorf("the event of %q is still awaited", s.key)
	}
	// A sample without a timer causes a probe, which arrives.
	l.Touched(ctx, []string{"app1:m:t:none"})
	e.until(t, "its probe", func() bool { return sampled() == nil })
	e.do(func() {
		if len(e.events) != 0 {
			t.Errorf("verdicts %v", e.events)
		}
	})
	if err := c.ConfigSet(ctx, "notify-keyspace-events", "").Err(); err != nil {
		t.Fatal(err)
	}
	touch("app1:m:t:2")
	e.until(t, "the end of events", e.last(false))
	before := l.flows[srv.Addr()].serial.Load()
	if err := c.ConfigSet(ctx, "notify-keyspace-events", "Ex").Err(); err != nil {
		t.Fatal(err)
	}
	e.until(t, "events again", e.last(true))
	if n := l.flows[srv.Addr()].serial.Load() - before; n < eventsToTrust-1 { // a probe may have started before
		t.Errorf("events are trusted after %d probes", n)
	}
}

// The only node is replaced while its events do not arrive. The probes of the new node decide.
func TestEventsFlowFromNewNode(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig("notify-keyspace-events Ex"))
	l, e, _ := newListener(t, srv.Client(), srv.Namespace(), nil)
	f := l.newFlow(srv.Client())
	l.lost(f)
	l.forget(f)
	run(t, l)
	e.until(t, "the events of the new node", e.last(true))
}

// Each cause is logged with its own remedy. Redis restarts without the notify flags: the subscription ends first.
func TestEachCauseOfSilenceIsLoggedOnce(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig("notify-keyspace-events Ex"))
	l, e, logs := newListener(t, srv.Client(), srv.Namespace(), func(o *Options) { o.Configure = false })
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	f := l.flows[srv.Addr()]
	for range 2 {
		e.until(t, "events", func() bool { return len(e.events) == 0 || e.events[len(e.events)-1] })
		logs.TakeAll()
		if _, err := srv.Client().Pipelined(context.Background(), func(pipe redis.Pipeliner) error {
			pipe.ConfigSet(context.Background(), flagsParameter, "")
			pipe.ClientKillByFilter(context.Background(), "TYPE", "pubsub")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		stopped := func() *observer.ObservedLogs { return logs.FilterMessageSnippet("expired events do not arrive") }
		e.until(t, "both causes", func() bool { return stopped().Len() == 2 })
		before := f.serial.Load()
		e.until(t, "more probes", func() bool { return f.serial.Load() > before+1 })
		var lines []string
		for _, line := range stopped().All() {
			lines = append(lines, fmt.Sprint(line.ContextMap()["why"], ": ", line.ContextMap()["remedy"]))
		}
		if want := []string{"the subscription has ended: " + remedyLost, "notify-keyspace-events lacks Ex and NOTIFIER_CONFIGURE_REDIS " +
			"is false: set notify-keyspace-events to Ex in redis.conf"}; !slices.Equal(lines, want) {
			t.Errorf("logged %q", lines)
		}
		if err := srv.Client().ConfigSet(context.Background(), flagsParameter, "Ex").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// Who may not set a probe's key learns nothing of events: they count as stopped.
func TestRefusedProbeStopsEvents(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig("notify-keyspace-events Ex"))
	c, set := limited(t, srv, "&*")
	set("-set")
	l, e, logs := newListener(t, c, srv.Namespace(), nil)
	run(t, l)
	e.until(t, "the subscription", func() bool { return e.begun == 1 })
	l.Touched(context.Background(), []string{"app1:m:t:none"})
	e.until(t, "the end of events", e.last(false))
	stopped := logs.FilterMessageSnippet("expired events do not arrive").All()
	if len(stopped) != 1 || stopped[0].ContextMap()["why"] != "cannot set a probe key" || stopped[0].ContextMap()["remedy"] != remedyUser {
		t.Errorf("logged %v", stopped)
	}
	set("+set")
	e.until(t, "events again", e.last(true))
}

// Events flow again when the only node whose events do not arrive is no master any more.
func TestEventsFlowWithoutTheirLastSilentNode(t *testing.T) {
	l, e, logs := newListener(t, nil, "notifier", nil)
	var flows []*flow
	for _, addr := range []string{"192.0.2.1:6379", "192.0.2.2:6379", "192.0.2.3:6379"} {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		flows = append(flows, l.newFlow(c))
	}
	l.lost(flows[0])
	l.refuse(flows[1], errors.New("NOPERM"))
	l.forget(flows[0])
	if !slices.Equal(e.events, []bool{false}) {
		t.Errorf("while a node refuses the channels: %v", e.events)
	}
	l.forget(flows[1])
	if !slices.Equal(e.events, []bool{false, true}) {
		t.Errorf("%v", e.events)
	}
	// A node without a user name has the user default.
	l.refuse(flows[2], errors.New("NOPERM"))
	stopped := logs.FilterMessageSnippet("expired events do not arrive").All()
	remedy, _ := stopped[len(stopped)-1].ContextMap()["remedy"].(string)
	if !strings.HasPrefix(remedy, "ACL SETUSER default &__keyevent@0__") {
		t.Errorf("remedy %q", remedy)
	}
}

// noMasters is a cluster without masters.
type noMasters struct{}

func (noMasters) Masters(context.Context, func(context.Context, redis.Cmdable) error) error {
	return nil
}
func (noMasters) Master(context.Context, string) string { return "" }

// In a cluster a node accepts only keys of its slots.
func TestProbeKeyBelongsToNode(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig("cluster-enabled yes"))
	ctx, c := context.Background(), srv.Client()
	l, _, _ := newListener(t, c, srv.Namespace(), func(o *Options) {
		o.Cluster = noMasters{}
	})
	f := l.newFlow(c)
	if _, err := f.probeKey(ctx); err == nil {
		t.Error("a node without slots has a key")
	}
	if err := c.ClusterAddSlotsRange(ctx, 5000, 5010).Err(); err != nil {
		t.Fatal(err)
	}
	key, err := f.probeKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if slot := c.ClusterKeySlot(ctx, key).Val(); slot != 5000 {
		t.Errorf("%s is in slot %d", key, slot)
	}
}

func TestRemedyOfRefusedProbe(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	c := srv.Client()
	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if got := remedyOf(c.Set(t.Context(), "a", "b", 0).Err()); !strings.Contains(got, "maxmemory") || strings.Contains(got, "rights") {
		t.Errorf("a full Redis: %q", got)
	}
}
