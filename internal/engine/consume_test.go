package engine

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"notifier/client"
	"notifier/internal/api"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// work is a consumer's side of a test: a service with its API, and consumers
// that may be stopped.
type work struct {
	*world
	api *client.Client
	t   *testing.T
}

func working(t *testing.T, srv *testkit.Redis, r *route.Route, change ...func(*Options)) *work {
	t.Helper()
	w := start(t, srv, &queue.Handler{}, func(o *Options) {
		o.Logger = zap.NewNop()
		for _, f := range change {
			f(o)
		}
	}, r)
	h := httptest.NewServer(api.New(api.Options{Engine: w.Engine, Routes: w.o.Routes, MaxBody: 1 << 20, Logger: zap.NewNop(), Loopback: true}))
	t.Cleanup(h.Close)
	c, err := client.New(client.Options{URL: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &work{w, c, t}
}

// works is a queue.Worker that calls it.
type works func(context.Context, *queue.Received) notice.Result

func (f works) Run(ctx context.Context, e *queue.Received) notice.Result { return f(ctx, e) }

// consumer runs one until the test ends, or stop is called.
func (w *work) consumer(name string, run func(context.Context, *queue.Received) notice.Result,
	change func(*queue.ConsumerOptions)) (stop func()) {
	r := w.o.Routes.All()[0]
	o := queue.ConsumerOptions{Redis: redis.NewClient(&redis.Options{Addr: w.srv.Addr(), DB: w.srv.DB(), MaxRetries: -1}),
		Stream: r.Target.Kind == route.KindStream, Key: r.Target.Key, Group: "g", Consumer: name, Idle: 300 * time.Millisecond,
		Report: r.Ack.Kind == route.AckReport, Timeout: r.Timeout, Drain: 5 * time.Second, After: time.Millisecond, Worker: works(run),
		API: w.api, Block: 100 * time.Millisecond, Logger: zaptest.NewLogger(w.t, zaptest.Level(zap.ErrorLevel))}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = queue.NewConsumer(o).Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		_ = o.Redis.(io.Closer).Close()
	})
	w.t.Cleanup(stop)
	return stop
}

func TestConsumeRunsACommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := working(t, testkit.SharedRedis(t), queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport))
	// Each notice says by its id what shall become of it.
	command := queue.Command{Environ: os.Environ(), Timeout: 10 * time.Second, Stdout: io.Discard, Stderr: io.Discard, Shell: `
		id=${NOTICE_KEY##*:}
		cat > ` + dir + `/$id.$NOTICE_ATTEMPT
		echo "$NOTICE_ID $NOTICE_DUE $NOTICE_CONTENT_TYPE" > ` + dir + `/$id.facts
		case $id in
		done) exit 0 ;;
		later) [ -e ` + dir + `/later.once ] && exit 0; touch ` + dir + `/later.once; echo locked >&2; exit 75 ;;
		fail) echo "no such order" >&2; exit 3 ;;
		esac`}
	w.consumer("c", command.Run, nil)
	ctx := context.Background()
	body := `{"order": "7 <b>"}`
	for _, id := range []string{"done", "later", "fail"} {
		if _, err := w.Schedule(ctx, store.Request{Key: "app1:a:b:" + id, Content: notice.Content{Body: []byte(body)}}); err != nil {
			t.Fatal(err)
		}
	}
	f := w.until(t, "app1:a:b:done", notice.Delivered)
	if f.AttemptsMade != 1 {
		t.Errorf("%+v", f.Notice)
	}
	for file, want := range map[string]string{"done.1": body, "done.facts": f.ID() + " " + f.Due.Format("2006-01-02T15:04:05.000Z07:00") +
		" application/json\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(b) != want {
			t.Errorf("%s holds %q (%v), want %q", file, b, err, want)
		}
	}
	if f = w.until(t, "app1:a:b:later", notice.Delivered); f.AttemptsMade != 1 {
		t.Errorf("a notice that was put off used %d attempts, want 1", f.AttemptsMade)
	}
	f = w.until(t, "app1:a:b:fail", notice.Dead)
	if f.AttemptsMade != 3 || f.Reason != notice.ReasonRejected || !strings.Contains(f.Attempts[0].Response, "exit status 3. no such order") {
		t.Errorf("%+v", f.Notice)
	}
}

func TestACommandThatTakesTooLongFails(t *testing.T) {
	t.Parallel()
	c := queue.Command{Shell: "sleep 60 & wait", Timeout: 50 * time.Millisecond, Stdout: io.Discard, Stderr: io.Discard}
	from := time.Now()
	v := c.Run(context.Background(), &queue.Received{Entry: queue.Entry{Key: "k", Attempt: 1}})
	if v.Outcome != notice.OutcomeRetry || !strings.Contains(v.Response, "longer than 50ms") || time.Since(from) > 30*time.Second {
		t.Errorf("%+v after %s", v, time.Since(from))
	}
}

// idleFor makes the entries that consumer dead has read look idle for so long. An entry is
// then taken over without a wait, and a slow machine is far from the limit.
func idleFor(t *testing.T, srv *testkit.Redis, idle time.Duration) {
	t.Helper()
	ctx := t.Context()
	read, err := srv.Client().XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "events", Group: "g", Start: "-", End: "+",
		Count: 1000}).Result()
	if err != nil {
		t.Fatal(err)
	}

	for _, e := range read {
		err := srv.Client().Do(ctx, "XCLAIM", "events", "g", "dead", 0, e.ID, "IDLE", idle.Milliseconds(), "JUSTID").Err()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestConsumersOfAStreamTakeOverFromTheDead(t *testing.T) {
	t.Parallel()
	for _, ack := range []route.AckKind{route.Ack2xx, route.AckReport} {
		t.Run(string(ack), func(t *testing.T) {
			r := queueRoute("s", "app1", route.Target{Kind: route.KindStream, Key: "events"}, ack)
			r.Timeout = 20 * time.Second
			srv := testkit.SharedRedis(t)
			w := working(t, srv, r)
			ctx := context.Background()
			const n = 20
			w.put(t, n, func(i int) store.Request { return store.Request{Key: key(i)} })
			// One that reads all and dies without a word.
			_ = srv.Client().XGroupCreateMkStream(ctx, "events", "g", "0").Err()
			eventually(t, "all read", func() bool {
				_, _ = srv.Client().XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "dead", Streams: []string{"events", ">"}, Count: n,
					Block: -1}).Result()
				p, err := srv.Client().XPending(ctx, "events", "g").Result()
				return err == nil && p.Count == n
			})
			idleFor(t, srv, 2*time.Minute)
			var mu sync.Mutex
			times := map[string]int{}
			w.consumer("alive", func(_ context.Context, e *queue.Received) notice.Result {
				mu.Lock()
				times[e.Key]++
				mu.Unlock()
				return notice.Result{Outcome: notice.OutcomeDelivered}
			}, func(o *queue.ConsumerOptions) { o.Concurrency, o.Idle = 4, time.Minute })
			eventually(t, "all acknowledged", func() bool {
				p, err := srv.Client().XPending(ctx, "events", "g").Result()
				return err == nil && p.Count == 0
			})
			for i := range n {
				if f := w.until(t, key(i), notice.Delivered); f.AttemptsMade != 1 || times[key(i)] != 1 {
					t.Errorf("%s: %d attempts, worked on %d times", key(i), f.AttemptsMade, times[key(i)])
				}
			}
		})
	}
}

// Work is not taken over while its consumer lives, however long it takes: its
// idle time is set back again and again.
func TestLongWorkIsNotTakenOver(t *testing.T) {
	t.Parallel()
	r := queueRoute("s", "app1", route.Target{Kind: route.KindStream, Key: "events"}, route.Ack2xx)
	w := working(t, testkit.SharedRedis(t), r)
	end := make(chan struct{})
	w.consumer("one", func(ctx context.Context, _ *queue.Received) notice.Result {
		select {
		case <-ctx.Done():
		case <-end:
		}
		return notice.Result{Outcome: notice.OutcomeDelivered}
	}, func(o *queue.ConsumerOptions) { o.Idle = 3 * time.Second })
	w.put(t, 1, func(i int) store.Request { return store.Request{Key: key(i)} })
	last := time.Duration(0)
	eventually(t, "set back", func() bool {
		p, err := w.srv.Client().XPendingExt(context.Background(), &redis.XPendingExtArgs{Stream: "events", Group: "g", Start: "-", End: "+",
			Count: 1}).Result()
		if err != nil || len(p) == 0 {
			return false
		}
		before := last
		last = p[0].Idle
		return last < before && p[0].Consumer == "one"
	})
	close(end)
	eventually(t, "acknowledged", func() bool {
		p, err := w.srv.Client().XPending(context.Background(), "events", "g").Result()
		return err == nil && p.Count == 0
	})
}

func TestConsumersSurviveCutsAndRestarts(t *testing.T) {
	t.Parallel()
	for _, kind := range []route.Kind{route.KindList, route.KindStream} {
		t.Run(string(kind), func(t *testing.T) {
			r := queueRoute("q", "app1", route.Target{Kind: kind, Key: "jobs"}, route.AckReport)
			r.Ladder = notice.Ladder{50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond,
				50 * time.Millisecond}
			srv := testkit.StartRedis(t, testkit.WithAOF(t.TempDir()))
			w := working(t, srv, r)
			ctx := context.Background()
			w.consumer("c", func(context.Context, *queue.Received) notice.Result {
				return notice.Result{Outcome: notice.OutcomeDelivered}
			}, nil)
			for round, cut := range []func(){
				func() {},
				func() { _ = srv.Client().Do(ctx, "CLIENT", "KILL", "TYPE", "normal").Err() },
				srv.Restart,
			} {
				cut()
				k := fmt.Sprintf("app1:a:b:%d", round)
				eventually(t, "scheduled", func() bool {
					_, err := w.Schedule(ctx, store.Request{Key: k})
					return err == nil
				})
				w.until(t, k, notice.Delivered)
			}
		})
	}
}

// A stop lets running work finish, and puts off what does not within the drain.
func TestAStoppedConsumerFinishesItsWork(t *testing.T) {
	t.Parallel()
	r := queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport)
	r.Timeout = 20 * time.Second
	w := working(t, testkit.SharedRedis(t), r)
	ctx := context.Background()
	for _, drain := range []time.Duration{30 * time.Second, 10 * time.Millisecond} {
		k := "app1:a:b:" + strings.ReplaceAll(drain.String(), "µ", "u")
		begun, finish := make(chan struct{}), make(chan struct{})
		stop := w.consumer("c", func(ctx context.Context, _ *queue.Received) notice.Result {
			close(begun)
			select {
			case <-finish:
				return notice.Result{Outcome: notice.OutcomeDelivered}
			case <-ctx.Done():
				return notice.Result{Outcome: notice.OutcomeDeferred, Response: "stopped"}
			}
		}, func(o *queue.ConsumerOptions) { o.Drain, o.After = drain, time.Hour })
		if _, err := w.Schedule(ctx, store.Request{Key: k}); err != nil {
			t.Fatal(err)
		}
		<-begun
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			stop()
		}()
		want := notice.Delivered
		if drain > time.Second {
			close(finish)
		} else {
			want = notice.Scheduled
		}
		<-stopped
		f := w.until(t, k, want)
		if want == notice.Scheduled && (f.AttemptsMade != 0 || f.Due.Before(time.Now().Add(30*time.Minute))) {
			t.Errorf("want it again in an hour as attempt 1: %+v", f.Notice)
		}
	}
}

// The consumer's command gets the opened body, and a missing key uses no attempt.
func TestConsumeOpensSealedEntries(t *testing.T) {
	t.Parallel()
	for _, kind := range []route.Kind{route.KindList, route.KindStream} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := queueRoute("l", "app1", route.Target{Kind: kind, Key: "jobs"}, route.AckReport)
			r.Seal = seal.PerID
			w := working(t, testkit.SharedRedis(t), r, func(o *Options) { o.SealKeys, o.KeyAge = testkit.ServiceKeys(t, "k"), time.Nanosecond })
			var mu sync.Mutex
			got := map[string]string{}
			w.consumer("c", func(_ context.Context, e *queue.Received) notice.Result {
				mu.Lock()
				defer mu.Unlock()
				got[e.Key] = e.ContentType + " " + string(e.Body)
				return notice.Result{Outcome: notice.OutcomeDelivered}
			}, nil)
			for i, c := range []notice.Content{{Body: []byte(`{"card":1}`)}, {Body: []byte(`[1]`), ContentType: "text/plain"}, {Body: []byte("\xff")}} {
				if _, err := w.Schedule(t.Context(), store.Request{Key: key(i), Content: c}); err != nil {
					t.Fatal(err)
				}
				w.until(t, key(i), notice.Delivered)
			}
			mu.Lock()
			if got[key(0)] != `application/json {"card":1}` || got[key(1)] != "text/plain [1]" || got[key(2)] != " \xff" {
				t.Errorf("%q", got)
			}
			clear(got)
			mu.Unlock()

			// The data key is wrapped with a service key that the service does not have, and then with its own again.
			if _, err := w.Schedule(t.Context(), store.Request{Key: key(3), Delay: time.Hour, Content: notice.Content{Body: []byte(`3`)}}); err != nil {
				t.Fatal(err)
			}
			f, err := w.Find(t.Context(), key(3))
			if err != nil {
				t.Fatal(err)
			}
			text, err := seal.ParseText(f.Sealed)
			if err != nil {
				t.Fatal(err)
			}
			hash, c := w.store.Space().Seals(f.Shard), w.srv.Client()
			wrapped := c.HGet(t.Context(), hash, text.DataKey).Val()
			if err := c.HSet(t.Context(), hash, text.DataKey, strings.Replace(wrapped, "w1:k:", "w1:lost:", 1)).Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Fire(t.Context(), key(3)); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "a deferral", func() bool { f, err := w.Find(t.Context(), key(3)); return err == nil && f.Locked > 1 })
			if err := c.HSet(t.Context(), hash, text.DataKey, wrapped).Err(); err != nil {
				t.Fatal(err)
			}
			if f := w.until(t, key(3), notice.Delivered); f.AttemptsMade != 1 {
				t.Errorf("%+v", f.Notice)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(got) != 1 || got[key(3)] != "application/json 3" {
				t.Errorf("%q", got)
			}
		})
	}
}
