package adapter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// onRedis is the common part of peers whose only server is a Redis.
type onRedis struct {
	served
	rdb *redis.Client
}

func (r *onRedis) Start(ctx context.Context, env peer.Env) error {
	if err := r.open(env, func() (*server.Process, error) { return server.Redis(ctx, env.Dir) }); err != nil {
		return err
	}

	r.rdb = redis.NewClient(&redis.Options{Addr: r.addr, PoolSize: callers + 2*connections(env.Handlers)})
	return nil
}

func (r *onRedis) Usage(ctx context.Context) (peer.Usage, error) {
	info, err := server.RedisUsage(ctx, r.rdb)
	return peer.Usage{Bytes: info.Bytes, Commands: info.Commands, Trips: info.Trips, CPU: info.CPU, PIDs: r.pids()}, err
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

// pattern is a delay queue that is built by hand on Redis.
type pattern struct {
	onRedis
	put  func(ctx context.Context, rdb *redis.Client, jobs []peer.Job) error
	work func(ctx context.Context, p *pattern, handlers int, call peer.Call) error
}

func (p *pattern) Schedule(ctx context.Context, jobs ...peer.Job) error {
	return p.put(ctx, p.rdb, jobs)
}

func (p *pattern) Work(ctx context.Context, handlers int, call peer.Call) error {
	return p.work(ctx, p, handlers, call)
}

// entry describes the pattern.
func (p pattern) entry(name, title, settings string, traits peer.Traits) peer.Entry {
	return peer.Entry{Info: peer.Info{Name: name, Title: title, Version: "go-redis v" + redis.Version(), Settings: settings,
		Kind: peer.Pattern, Traits: traits, Batch: 128, Needs: redisNeeds, BytesOf: bytesRedis, CommandsOf: commandsRedis},
		New: func() peer.Peer { return &pattern{put: p.put, work: p.work} }}
}

// pipelined sends what add adds for each job in one round trip.
func pipelined(ctx context.Context, rdb *redis.Client, jobs []peer.Job, add func(redis.Pipeliner, peer.Job)) error {
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, j := range jobs {
			add(p, j)
		}
		return nil
	})
	return err
}

// popEach starts handlers that call do with each element of a list.
func (p *pattern) popEach(handlers int, do func(ctx context.Context, element string) error) {
	for range handlers {
		p.workers.run(func(ctx context.Context) error {
			for ctx.Err() == nil {
				// One second at most: a cancelled context does not wake a blocked read.
				popped, err := p.rdb.BRPop(ctx, time.Second, readyKey).Result()
				if errors.Is(err, redis.Nil) {
					continue
				}
				if err != nil {
					return fmt.Errorf("pop: %w", err)
				}
				if err := do(ctx, popped[1]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
