package adapter

import (
	"context"

	"github.com/gocraft/work"
	"github.com/gomodule/redigo/redis"

	"notifier/bench/peer"
)

// gocraft is gocraft/work.
type gocraft struct {
	onRedis
	conns    *redis.Pool
	enqueuer *work.Enqueuer
	pool     *work.WorkerPool
}

const (
	gocraftSpace = "bench"
	gocraftJob   = "notice"
)

func gocraftEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "gocraft", Title: "gocraft/work", Version: moduleVersion("github.com/gocraft/work"), Kind: peer.System,
		Needs:    redisNeeds,
		Settings: "defaults, this version has no others; whole seconds, rounded up here so that it is not early",
		Traits: peer.Traits{Crash: "nothing; recovered within 10 min", Race: "safe", Ladder: "a function a job type",
			Cancel: "by id and due time"},
		BytesOf: bytesRedis, CommandsOf: commandsRedis,
	}, New: func() peer.Peer { return &gocraft{} }}
}

func (g *gocraft) Start(ctx context.Context, env peer.Env) error {
	if err := g.start(ctx, env); err != nil {
		return err
	}
	g.conns = &redis.Pool{MaxIdle: callers + env.Handlers, MaxActive: 2*callers + 2*env.Handlers, Wait: true,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", g.addr) }}
	g.enqueuer = work.NewEnqueuer(gocraftSpace, g.conns)
	return nil
}

func (g *gocraft) Schedule(_ context.Context, j peer.Job) error {
	_, err := g.enqueuer.EnqueueIn(gocraftJob, secondsUp(j.Due), work.Q{"id": j.ID, "body": string(j.Body)})
	return err
}

func (*gocraft) ScheduleBatch(context.Context, []peer.Job) error { return peer.ErrNoBatch }

func (g *gocraft) Work(_ context.Context, handlers int, handle peer.Handle) error {
	g.pool = work.NewWorkerPool(struct{}{}, uint(handlers), gocraftSpace, g.conns)
	g.pool.JobWithOptions(gocraftJob, work.JobOptions{MaxFails: 1, SkipDead: true}, func(job *work.Job) error {
		id := job.ArgString("id")
		if err := job.ArgError(); err != nil {
			return err
		}
		handle(id)
		return nil
	})
	g.pool.Start()
	return nil
}

func (g *gocraft) Stop() error {
	if g.pool != nil {
		g.pool.Stop()
	}
	if g.conns != nil {
		if err := g.conns.Close(); err != nil {
			return err
		}
	}
	return g.onRedis.Stop()
}
