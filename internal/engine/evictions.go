package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/wire"
)

// evictions are the keys that one server has evicted.
type evictions struct {
	run         string // of the server; changes with each restart
	first, last int64  // the server's count when it was first and last read
	since       time.Time
	logged      time.Time
}

// evictionsLogged is the shortest interval of the log's lines about one server.
const evictionsLogged = time.Minute

// watchEvictions reads how many keys each server has evicted.
func (e *Engine) watchEvictions(ctx context.Context) {
	one := func(ctx context.Context, c redis.Cmdable, addr string) {
		info, err := c.InfoMap(ctx).Result()
		if err == nil { // doctor reports a user that may not send INFO
			e.losses.evicts(addr, info)
		}
	}

	if e.o.Conn.Masters == nil {
		one(ctx, e.o.Conn, "")
		return
	}

	_ = e.o.Conn.Masters(ctx, func(ctx context.Context, c redis.Cmdable) error {
		one(ctx, c, wire.Addr(c))
		return nil
	})
}

// evicts reports the evictions of a server since the last call, unless it has no policy that evicts.
func (l *losses) evicts(addr string, info map[string]map[string]string) {
	policy, run := info["Memory"]["maxmemory_policy"], info["Server"]["run_id"]
	n, err := strconv.ParseInt(info["Stats"]["evicted_keys"], 10, 64)
	if err != nil {
		return
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	now, x := l.now(), l.evicted[addr]
	if x.run != run || x.since.IsZero() {
		x = evictions{run: run, first: n, last: n, since: now}
	}

	if n > x.last && policy != "" && policy != "noeviction" {
		name := "Redis"
		if addr != "" {
			name = "redis node " + addr
		}

		text := fmt.Sprintf("%s evicts notices under maxmemory-policy %s: %s evicted since %s UTC", name, policy,
			notice.Count(n-x.first, "key"), x.since.UTC().Format(time.TimeOnly))
		l.add("evictions "+addr, text)
		if now.Sub(x.logged) >= evictionsLogged {
			x.logged = now
			l.logger.Error("Redis evicts keys, notices are lost", zap.String("policy", policy), zap.String("redis", addr),
				zap.Int64("evicted", n-x.last), zap.String("remedy", "CONFIG SET maxmemory-policy noeviction, also in redis.conf"))
		}
	}

	x.last = n
	l.evicted[addr] = x
}
