package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis starts a redis-server without persistence.
func Redis(ctx context.Context, dir string) (*Process, error) {
	path, addr, err := found("redis-server")
	if err != nil {
		return nil, err
	}

	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	return launch(ctx, Command{Name: "redis", Path: path, Dir: dir, Addr: addr,
		Args:  []string{"--port", port(addr), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir},
		Ready: func(ctx context.Context) error { return c.Ping(ctx).Err() }})
}

// Usage is a Redis server's own account.
type Usage struct {
	Bytes    int64         // used_memory
	Commands int64         // executed, those inside scripts included, our own INFO left out
	Trips    int64         // reads from a connection; -1 before Redis 6
	CPU      time.Duration // processor time
}

// RedisUsage asks Redis for its usage.
func RedisUsage(ctx context.Context, c *redis.Client) (u Usage, err error) {
	text, err := c.Info(ctx, "all").Result()
	if err != nil {
		return u, fmt.Errorf("ask Redis for its usage: %w", err)
	}

	return parseUsage(text)
}

func parseUsage(info string) (u Usage, err error) {
	values := map[string]float64{"total_reads_processed": -1}
	for line := range strings.Lines(info) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = n
		}

		if calls, ok := strings.CutPrefix(text, "calls="); ok && name != "cmdstat_info" {
			calls, _, _ = strings.Cut(calls, ",")
			n, err := strconv.ParseInt(calls, 10, 64)
			if err != nil {
				return u, fmt.Errorf("read commandstats: %w", err)
			}

			u.Commands += n
		}
	}

	u.Bytes, u.Trips = int64(values["used_memory"]), int64(values["total_reads_processed"])
	u.CPU = time.Duration((values["used_cpu_sys"] + values["used_cpu_user"]) * float64(time.Second))
	if u.Bytes == 0 {
		err = errors.New("ask Redis for its usage: no used_memory")
	}

	return u, err
}
