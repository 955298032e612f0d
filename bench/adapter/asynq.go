package adapter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
)

// queue is hibiken/asynq.
type queue struct {
	onRedis
	interval time.Duration // 0 = asynq's own default
	client   *asynq.Client
	srv      *asynq.Server
}

const asynqTask = "notice"

func asynqEntry(name, title, settings string, interval time.Duration) peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: name, Title: title, Version: moduleVersion("github.com/hibiken/asynq"), Settings: settings, Kind: peer.System,
		Needs: redisNeeds,
		Traits: peer.Traits{Crash: "nothing; recovered after 60–120 s", Race: "safe (lease 30 s)", Ladder: "one function a server",
			Cancel: "by id, unless active"},
		Skip: map[string]string{}, BytesOf: bytesRedis, CommandsOf: commandsRedis,
	}, New: func() peer.Peer { return &queue{interval: interval} }}
}

func asynqDefault() peer.Entry {
	e := asynqEntry("asynq", "asynq", "defaults: delayed tasks checked each 5 s", 0)
	e.Info.Quickstart, e.Info.Modules = "asynq", []string{"github.com/hibiken/asynq"}
	return e
}

func asynqBest() peer.Entry {
	e := asynqEntry("asynq-10ms", "asynq, 10 ms", "DelayedTaskCheckInterval and TaskCheckInterval 10 ms (its most punctual); it "+
		"keeps whole seconds, cut off, so it is early", 10*time.Millisecond)
	e.Info.Refused = "the handler returns an error; asynq puts the task into its retry set for 15 to 44 s, then longer each time " +
		"(its default function), 25 times, and then into its archive"
	return e
}

// asynqAsOften looks for due tasks about as often as this project claims at 1,000 due jobs a second.
func asynqAsOften() peer.Entry {
	e := asynqEntry("asynq-2ms", "asynq, 2 ms", "DelayedTaskCheckInterval and TaskCheckInterval 2 ms: about as many reads of Redis as "+
		"this project makes at a steady 1,000 a second", 2*time.Millisecond)
	e.Info.Cases = []string{"steady"}
	return e
}

func (q *queue) Start(ctx context.Context, env peer.Env) error {
	if err := q.onRedis.Start(ctx, env); err != nil {
		return err
	}

	q.client = asynq.NewClientFromRedisClient(q.rdb)
	return nil
}

func (q *queue) Schedule(ctx context.Context, jobs ...peer.Job) error {
	j := jobs[0]
	_, err := q.client.EnqueueContext(ctx, asynq.NewTask(asynqTask, payload(j)), asynq.TaskID(j.ID), asynq.ProcessAt(j.Due),
		asynq.Timeout(time.Minute))
	return err
}

func (q *queue) Work(_ context.Context, handlers int, call peer.Call) error {
	q.srv = asynq.NewServerFromRedisClient(redis.NewClient(&redis.Options{Addr: q.addr, PoolSize: connections(handlers)}), asynq.Config{
		Concurrency: handlers, LogLevel: asynq.ErrorLevel, DelayedTaskCheckInterval: q.interval, TaskCheckInterval: q.interval,
		ShutdownTimeout: time.Second,
	})
	err := q.srv.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		id, ok := asynq.GetTaskID(ctx)
		if !ok {
			return errors.New("a task without id")
		}

		return call(ctx, job(id, t.Payload()))
	}))
	if err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}

	return nil
}

func (q *queue) Stop() error {
	if q.srv != nil {
		q.srv.Shutdown()
	}
	return q.onRedis.Stop()
}
