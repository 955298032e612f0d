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
		Refused: "the handler returns an error; the job goes into a sorted set for 16 to 74 s, then longer each time (its default " +
			"function), fails 4 times at most and is then put among the dead",
		BytesOf: bytesRedis, CommandsOf: commandsRedis,
	}, New: func() peer.Peer { return &gocraft{} }}
}

func (g *gocraft) Start(ctx context.Context, env peer.Env) error {
	if err := g.onRedis.Start(ctx, env); err != nil {
		return err
	}

	n := callers + connections(env.Handlers)
	g.conns = &redis.Pool{MaxIdle: n, MaxActive: 2 * n, Wait: true,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", g.addr) }}
	g.enqueuer = work.NewEnqueuer(gocraftSpace, g.conns)
	return nil
}

func (g *gocraft) Schedule(_ context.Context, jobs ...peer.Job) error {
	j := jobs[0]
	_, err := g.enqueuer.EnqueueIn(gocraftJob, secondsUp(j.Due), work.Q{"id": j.ID, "body": string(payload(j))})
	return err
}

func (g *gocraft) Work(_ context.Context, handlers int, call peer.Call) error {
	g.pool = work.NewWorkerPool(struct{}{}, uint(handlers), gocraftSpace, g.conns)
	g.pool.Job(gocraftJob, func(w *work.Job) error {
		id, body := w.ArgString("id"), w.ArgString("body")
		if err := w.ArgError(); err != nil {
			return err
		}

		return call(g.workers.ctx, job(id, []byte(body)))
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
