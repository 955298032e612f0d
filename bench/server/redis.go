package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Redis starts a redis-server without persistence. Further arguments are
// appended: "--hz", "100".
func Redis(ctx context.Context, dir string, args ...string) (*Process, error) {
	path, err := Find("redis-server")
	if err != nil {
		return nil, err
	}

	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}

	all := append([]string{"--port", port(addr), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, args...)
	p, err := start(command{name: "redis", path: path, args: all, dir: dir, addr: addr})
	if err != nil {
		return nil, err
	}

	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	if err := p.ready(ctx, func(ctx context.Context) error { return c.Ping(ctx).Err() }); err != nil {
		return nil, errors.Join(err, p.Stop())
	}

	return p, nil
}

// RedisBytes is INFO's used_memory.
func RedisBytes(ctx context.Context, c *redis.Client) (int64, error) {
	info, err := c.Info(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its memory: %w", err)
	}

	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}

	return 0, fmt.Errorf("ask Redis for its memory: no used_memory in %q", info)
}

// RedisTrips is how often Redis has read from a connection.
func RedisTrips(ctx context.Context, c *redis.Client) (int64, error) {
	info, err := c.Info(ctx, "stats").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its reads: %w", err)
	}

	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "total_reads_processed:"); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}

	return -1, nil // before Redis 6
}

// RedisCommands is how many commands Redis has executed, those inside of
// scripts included, our own INFO left out.
func RedisCommands(ctx context.Context, c *redis.Client) (int64, error) {
	info, err := c.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its commands: %w", err)
	}

	return sumCalls(info)
}

func sumCalls(info string) (int64, error) {
	var sum int64
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(line, ":calls=")
		if !ok || name == "cmdstat_info" {
			continue
		}

		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read commandstats: %w", err)
		}

		sum += n
	}

	return sum, nil
}
