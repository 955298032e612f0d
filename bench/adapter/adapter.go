package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// All lists every peer in the tables' order.
func All() []peer.Entry {
	return []peer.Entry{
		notifierEntry(), notifierHTTPEntry(), asynqDefault(), asynqBest(), asynqAsOften(), gocraftEntry(), riverEntry(),
		beanstalkdEntry(), beanstalkdAligned(), natsEntry(),
		rabbitmqEntry(),
		expiredEvents(), zsetPoll(), zsetLua(), zsetCarry(), zsetShards(), bucketsQueue(), listSleep(), listBlock(), memoryHeap(),
		sqlPoll(),
	}
}

var redisNeeds = []peer.Need{{Program: "redis-server", Package: "redis-server"}}

const (
	bytesRedis    = "growth of used_memory"
	bytesRSS      = "growth of the server's resident memory"
	bytesTable    = "table and indexes on disk"
	commandsRedis = "Redis commands, those inside scripts included"
)

// workers is a set of goroutines that end together.
type workers struct {
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup
}

func newWorkers() *workers {
	w := &workers{}
	// Workers live until Stop, not until the call that started it returns.
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// run starts fn; an error that is not the workers' end is logged, and shows in
// the table as jobs that are missing.
func (w *workers) run(fn func(ctx context.Context) error) {
	w.wg.Go(func() {
		if err := fn(w.ctx); err != nil && w.ctx.Err() == nil {
			slog.Error("a worker ended", "error", err)
		}
	})
}

func (w *workers) stop() {
	if w == nil {
		return
	}

	w.cancel()
	w.wg.Wait()
}

// every calls fn each interval until the workers stop.
func (w *workers) every(interval time.Duration, fn func(ctx context.Context) error) {
	w.run(func(ctx context.Context) error {
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-t.C:
			}
			if err := fn(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				slog.Error("a poll failed", "error", err)
			}
		}
	})
}

// page is how many due jobs a poll takes at most.
const page = 1000

// poll calls take each interval, and again at once while it takes full pages.
func (w *workers) poll(interval time.Duration, take func(ctx context.Context) (int, error)) {
	w.every(interval, func(ctx context.Context) error {
		for {
			if n, err := take(ctx); err != nil || n < page {
				return err
			}
		}
	})
}

// receive starts n workers that call do with each element of a channel.
func receive[T any](w *workers, n int, from <-chan T, do func(context.Context, T) error) {
	for range n {
		w.run(func(ctx context.Context) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case x, ok := <-from:
					if !ok {
						return errors.New("the channel was closed")
					}
					if err := do(ctx, x); err != nil {
						return err
					}
				}
			}
		})
	}
}

// pool starts n handlers and returns where to send them ids.
func (w *workers) pool(n int, call peer.Call) chan<- string {
	jobs := make(chan string, 1)
	receive(w, n, jobs, func(ctx context.Context, id string) error { return call(ctx, peer.Job{ID: id}) })
	return jobs
}

// served is the common part of peers with one server.
type served struct {
	srv     *server.Process // nil if it is another peer's
	addr    string
	workers *workers
}

// open starts the server, unless env has the address of another peer's.
func (s *served) open(env peer.Env, start func() (*server.Process, error)) (err error) {
	s.addr, s.workers = env.Attach, newWorkers()
	if s.addr != "" {
		return nil
	}
	if s.srv, err = start(); err != nil {
		return err
	}

	s.addr = s.srv.Addr
	return nil
}

func (s *served) Addr() string { return s.addr }

func (s *served) pids() []int {
	if s.srv == nil {
		return nil
	}
	return []int{s.srv.PID()}
}

// Usage returns the resident memory of the server and its children.
func (s *served) Usage(context.Context) (peer.Usage, error) {
	u := peer.Usage{Commands: -1, Trips: -1, PIDs: s.pids()}
	for _, root := range u.PIDs {
		tree, err := server.Tree(root)
		if err != nil {
			return u, err
		}

		for _, pid := range tree {
			if rss, err := server.RSS(pid); err == nil { // else it has ended
				u.Bytes += rss
			}
		}
	}

	return u, nil
}

func (s *served) Stop() error {
	s.workers.stop()
	return s.srv.Stop()
}

// send gives an id to a pool's handler, waiting for a free one.
func send(ctx context.Context, jobs chan<- string, id string) error {
	select {
	case jobs <- id:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pack puts an id before the payload, where a system names its jobs itself.
func pack(j peer.Job) []byte { return append(append([]byte(j.ID), '\n'), payload(j)...) }

func unpack(b []byte) (id string, err error) {
	const n = len("app1:trans:notice:") + 13
	if len(b) <= n || b[n] != '\n' {
		return "", fmt.Errorf("%.40q is no scheduled job", b)
	}

	return string(b[:n]), nil
}

func unpackJob(b []byte) (peer.Job, error) {
	id, err := unpack(b)
	if err != nil {
		return peer.Job{}, err
	}

	return job(id, b[len(id)+1:]), nil
}

// payload returns the body of a job, after a line with the job's URL if it has one. A body is
// JSON, so it never begins like a URL.
func payload(j peer.Job) []byte {
	if j.URL == "" {
		return j.Body
	}
	return append(append([]byte(j.URL), '\n'), j.Body...)
}

// job is the inverse of payload.
func job(id string, payload []byte) peer.Job {
	if !bytes.HasPrefix(payload, []byte("http")) {
		return peer.Job{ID: id, Body: payload}
	}

	url, body, _ := bytes.Cut(payload, []byte{'\n'})
	return peer.Job{ID: id, URL: string(url), Body: body}
}

// retryAfter is the delay before a repetition where a peer leaves it to its user:
// the first step of this project's own ladder.
const retryAfter = 15 * time.Second

// secondsUp is the time until due in whole seconds, rounded up: systems that
// count in seconds are given the delay that is never early.
func secondsUp(due time.Time) int64 {
	d := time.Until(due)
	if d <= 0 {
		return 0
	}

	return int64((d + time.Second - 1) / time.Second)
}

// held is a pool of connections, each used by one caller at a time.
type held[T any] struct {
	free chan T
	all  []T
}

func hold[T any](n int, open func() (T, error)) (*held[T], error) {
	h := &held[T]{free: make(chan T, n)}
	for range n {
		c, err := open()
		if err != nil {
			return h, err
		}

		h.all = append(h.all, c)
		h.free <- c
	}

	return h, nil
}

func (h *held[T]) with(ctx context.Context, fn func(T) error) error {
	select {
	case c := <-h.free:
		defer func() { h.free <- c }()
		return fn(c)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *held[T]) close(fn func(T) error) error {
	if h == nil {
		return nil
	}

	var errs []error
	for _, c := range h.all {
		errs = append(errs, fn(c))
	}

	return errors.Join(errs...)
}

// connections returns the pool size of a worker with this number of handlers. A handler uses a
// connection only at its start and end. Thousands of connections would slow the server down.
func connections(handlers int) int { return min(handlers, 128) + 16 }

// callers is the number of a producer's connections: one for each caller of the schedule case.
const callers = 64
