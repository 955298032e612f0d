package adapter

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// onRedis is what all peers share whose only server is a Redis.
type onRedis struct {
	srv     *server.Process // nil when attached
	addr    string
	rdb     *redis.Client
	workers *workers
}

func (r *onRedis) start(ctx context.Context, env peer.Env, args ...string) error {
	r.addr = env.Attach
	if r.addr == "" {
		srv, err := server.Redis(ctx, env.Dir, args...)
		if err != nil {
			return err
		}

		r.srv, r.addr = srv, srv.Addr
	}

	r.rdb = redis.NewClient(&redis.Options{Addr: r.addr, PoolSize: callers + 2*connections(env.Handlers)})
	r.workers = newWorkers()
	return nil
}

func (r *onRedis) Start(ctx context.Context, env peer.Env) error { return r.start(ctx, env) }

func (r *onRedis) Addr() string { return r.addr }

func (r *onRedis) Usage(ctx context.Context) (peer.Usage, error) {
	info, err := server.RedisUsage(ctx, r.rdb)
	u := peer.Usage{Bytes: info.Bytes, Commands: info.Commands, Trips: info.Trips, CPU: info.CPU}
	if r.srv != nil {
		u.PIDs = []int{r.srv.PID()}
	}

	return u, err
}

func (r *onRedis) Stop() error {
	r.workers.stop()
	if r.rdb != nil {
		if err := r.rdb.Close(); err != nil {
			return fmt.Errorf("close the connection to Redis: %w", err)
		}
	}

	return r.srv.Stop()
}

// pipelined sends what add adds for each job in one round trip.
func (r *onRedis) pipelined(ctx context.Context, jobs []peer.Job, add func(redis.Pipeliner, peer.Job)) error {
	_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, j := range jobs {
			add(p, j)
		}
		return nil
	})
	return err
}

func patternInfo(name, title, settings string, traits peer.Traits) peer.Info {
	return peer.Info{Name: name, Title: title, Version: "go-redis v" + redis.Version(), Settings: settings, Kind: peer.Pattern,
		Traits: traits, Batch: 128,
		Needs: redisNeeds, BytesOf: bytesRedis, CommandsOf: commandsRedis}
}
