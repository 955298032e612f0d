package engine

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"

	"go.uber.org/zap"

	"notifier/client/webhook"
	"notifier/internal/callback"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
	"notifier/internal/tracing"
)

// withTaps gives an engine the real handlers, with taps.
func withTaps(t *testing.T) func(*Options) {
	calls := callback.New(callback.Options{})
	t.Cleanup(calls.Close)
	return func(o *Options) {
		o.Taps = tracing.NewPublisher(tracing.PublisherOptions{Observer: o.Metrics, Logger: zap.NewNop()})
		o.Handler = Handlers(o.Conn, o.Space, calls, o.Taps, &testLog{})
	}
}

// copies reads copies until each of the keys has one, and returns them by key.
func copies(t *testing.T, from *tracing.Tap, want int) map[string]*tracing.Copy {
	t.Helper()
	got := map[string]*tracing.Copy{}
	for len(got) < want {
		e := testkit.Next(t, fmt.Sprintf("%d of %d copies came", len(got), want), from.Events())
		from.Received(&e)
		if e.Copy == nil {
			continue
		}
		if got[e.Copy.Key] != nil {
			t.Errorf("a second copy of %s", e.Copy.Key)
		}
		got[e.Copy.Key] = e.Copy
	}
	return got
}

// awaitReady waits until so many instances copy.
func awaitReady(t *testing.T, from *tracing.Tap, instances int) {
	t.Helper()
	if e := testkit.Next(t, "the tap is ready", from.Events()); !e.Ready || e.Instances != instances || e.Alive != instances {
		t.Fatalf("%+v, want ready with %d instances", e, instances)
	}
}

func TestTapCopiesAttemptsOfEveryInstance(t *testing.T) {
	t.Parallel()
	secret := sign.SecretOf([]byte("the secret of the route: 32 byte"))
	var mu sync.Mutex
	delivered := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := webhook.Payload(r, 1<<20)
		if err == nil {
			err = webhook.Verify(r.Header, body, secret.Reveal())
		}
		if err != nil || r.Header.Get("X-Of-Route") != "hunter2" {
			t.Errorf("the real delivery has changed: %v, %v", err, r.Header)
		}
		mu.Lock()
		delivered[r.Header.Get("Notifier-Key")]++
		mu.Unlock()
		if r.Header.Get("Notifier-Key") == key(0) {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(receiver.Close)
	to, err := url.Parse(receiver.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := testRoute("trans", "app1:trans")
	r.Target = route.Target{Kind: route.KindFixed, URL: to}
	r.Secrets, r.Headers = []sign.Secret{secret}, []notice.Header{{Name: "X-Of-Route", Value: "hunter2"}}
	jobs := testRoute("jobs", "app1:jobs")
	jobs.Target = route.Target{Kind: route.KindList, Key: "app1-todo"}
	logs := testRoute("logs", "app1:logs")

	srv := testkit.SharedRedis(t)
	first := start(t, srv, nil, withTaps(t), r, jobs, logs)
	second := start(t, srv, nil, withTaps(t), r, jobs, logs)
	from, err := first.OpenTap(t.Context(), "shop", "app1")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	awaitReady(t, from, 2)

	const n = 60
	list := []string{"app1:jobs:x:1", "app1:logs:x:1"}
	for i := range n {
		list = append(list, key(i))
	}
	second.put(t, len(list), func(i int) store.Request {
		return store.Request{Key: list[i], Content: notice.Content{Body: []byte(`{"a":1}`)}}
	})
	got := copies(t, from, len(list))
	for _, k := range list {
		c := got[k]
		if c == nil {
			t.Fatalf("no copy of %s", k)
		}
		if slices.ContainsFunc(c.Headers, func(h notice.Header) bool { return h.Value == "hunter2" }) {
			t.Errorf("%s: a header of the route is in the copy", k)
		}
	}
	if c := got[key(0)]; c.Outcome != notice.OutcomeDead || c.Status != http.StatusGone {
		t.Errorf("%+v", c)
	}
	if c := got[key(1)]; c.Outcome != notice.OutcomeDelivered || c.Status != 200 || !c.Standard || string(c.Body) != `{"a":1}` || c.Method != http.MethodPost {
		t.Errorf("%+v", c)
	}
	entry, err := queue.ParseEnvelope(string(got["app1:jobs:x:1"].Body))
	if err != nil || entry.Key != "app1:jobs:x:1" || got["app1:jobs:x:1"].Method != tracing.Push ||
		got["app1:jobs:x:1"].URL != "list:app1-todo" {
		t.Errorf("%v: %+v", err, got["app1:jobs:x:1"])
	}
	if c := got["app1:logs:x:1"]; string(c.Body) != `{"a":1}` || c.Method != http.MethodPost {
		t.Errorf("%+v", c)
	}

	mu.Lock()
	defer mu.Unlock()
	for k, times := range delivered {
		if times != 1 {
			t.Errorf("%s was delivered %d times", k, times)
		}
	}
	if len(delivered) != n {
		t.Errorf("%d delivered, want %d", len(delivered), n)
	}
}

// In a cluster copies go over a sharded channel, which reaches both instances' taps, and over a plain one where Redis is
// older than version 7.
func TestTapInACluster(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config        []string
		shardChannels int
	}{
		"sharded": {nil, 1},
		"plain":   {[]string{`rename-command SPUBLISH ""`, `rename-command SSUBSCRIBE ""`}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, client := oneNode(t, c.config...)
			logs := testRoute("logs", "app1:logs")
			first := startClusterWith(t, srv, 4, withTaps(t), logs)
			second := startClusterWith(t, srv, 4, withTaps(t), logs)
			from, err := first.OpenTap(t.Context(), "shop", "app1")
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()

			awaitReady(t, from, 2)
			if channels, err := client.PubSubShardChannels(t.Context(), "*").Result(); err != nil || len(channels) != c.shardChannels {
				t.Errorf("sharded channels: %v, %v", channels, err)
			}
			list := make([]string, 40)
			for i := range list {
				list[i] = fmt.Sprint("app1:logs:x:", i)
			}
			second.put(t, len(list), func(i int) store.Request {
				return store.Request{Key: list[i], Content: notice.Content{Body: []byte(`{"a":1}`)}}
			})
			got := copies(t, from, len(list))
			for _, k := range list {
				if got[k] == nil {
					t.Errorf("no copy of %s", k)
				}
			}
		})
	}
}

func TestTapEndsWhenTheEngineStops(t *testing.T) {
	t.Parallel()
	w := start(t, testkit.SharedRedis(t), nil, withTaps(t), testRoute("logs", "app1:logs"))
	from, err := w.OpenTap(t.Context(), "shop", "")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range from.Events() {
			from.Received(&e)
		}
		from.Close()
	}()
	w.stop()
	<-ended
}

// Without a tap an attempt allocates as much as without this feature.
func TestTapCostsNoAllocationWithoutTaps(t *testing.T) {
	h := handlers{log: logHandler{&testLog{}}, taps: tracing.NewPublisher(tracing.PublisherOptions{Logger: zap.NewNop()})}
	r := testRoute("jobs", "app1:jobs")
	r.Target = route.Target{Kind: route.KindLog}
	n := &notice.Notice{Key: key(1), Content: notice.Content{Body: []byte("{}")}}
	count := func(handle func(context.Context, *route.Route, *notice.Notice) notice.Result) float64 {
		return testing.AllocsPerRun(1000, func() { handle(t.Context(), r, n) })
	}

	if with, without := count(h.Handle), count(h.handle); with > without {
		t.Errorf("%g allocations with the check for taps, %g without", with, without)
	}
}

// The counted results are the label values of the metric.
func TestTapResultsAreThoseOfTheMetric(t *testing.T) {
	t.Parallel()
	if want := []string{tracing.Published, tracing.Dropped, tracing.Slow}; !slices.Equal(telemetry.CopyResults, want) {
		t.Errorf("the metric has %v, want %v", telemetry.CopyResults, want)
	}
}
