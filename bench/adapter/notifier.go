package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"notifier/bench/peer"
	"notifier/worker"
)

// library is this project as package worker: producer and handlers in one program.
type library struct {
	onRedis
	w    *worker.Worker
	call atomic.Pointer[peer.Call] // nil before Work
}

const (
	ourPrefix  = "app1"
	ourTimeout = 10 * time.Second
)

var ourTraits = peer.Traits{Crash: "nothing; delivered again 3 to 4 s later by another instance, or when the lease ends (timeout + 5 s) " +
	"if there is none", Race: "safe (claim with a token)",
	Ladder: "by route or by notice",
	Cancel: "by key"}

const ourRefused = "it is repeated after the route's ladder, 15 s, 3 min, 10 min and so on over 25 h (the default), and is then dead"

func notifierEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "notifier", Title: "notifier, package worker", Version: "this revision", Kind: peer.Ours, Needs: redisNeeds,
		Traits:     ourTraits,
		Refused:    "the handler returns an error; " + ourRefused,
		Settings:   "defaults; the handler's concurrency is the number of handlers asked for",
		Quickstart: "worker",
		Batch:      128, BytesOf: bytesRedis, CommandsOf: commandsRedis,
	}, New: func() peer.Peer { return &library{} }}
}

func (l *library) Start(ctx context.Context, env peer.Env) error {
	if err := l.onRedis.Start(ctx, env); err != nil {
		return err
	}

	w, err := worker.New(worker.Options{Redis: "redis://" + l.addr + "/0", Concurrency: max(512, env.Handlers), KeepRedisConfig: env.NoEvents,
		ShutdownTimeout: 2 * time.Second, LogAttempts: "failed",
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return fmt.Errorf("make the worker: %w", err)
	}

	l.w = w
	w.Handle(ourPrefix, l.handle, worker.Concurrency(env.Handlers), worker.Timeout(ourTimeout))
	return nil
}

func (l *library) handle(ctx context.Context, n *worker.Notice) error {
	return (*l.call.Load())(ctx, job(n.Key, n.Body))
}

func request(j peer.Job) worker.Request {
	return worker.Request{Key: j.ID, Due: j.Due, Body: payload(j)}
}

func (l *library) Schedule(ctx context.Context, jobs ...peer.Job) error {
	if len(jobs) == 1 {
		_, err := l.w.Schedule(ctx, request(jobs[0]))
		return err
	}

	requests := make([]worker.Request, len(jobs))
	for i, j := range jobs {
		requests[i] = request(j)
	}

	replies, err := l.w.ScheduleMany(ctx, requests)
	for _, r := range replies {
		err = errors.Join(err, r.Err)
	}

	return err
}

func (l *library) Work(_ context.Context, _ int, call peer.Call) error {
	l.call.Store(&call)
	l.workers.run(l.w.Run)
	return nil
}

func (l *library) Stop() error {
	var err error
	if l.w != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = l.w.Close(ctx)
	}

	return errors.Join(err, l.onRedis.Stop())
}
