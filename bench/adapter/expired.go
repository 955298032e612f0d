package adapter

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
)

// expiredEvents is the pattern on which this project builds, alone: a key with a TTL, and a
// subscriber that handles its expired event.
func expiredEvents() peer.Entry {
	return pattern{put: setAll, work: handleExpired}.entry("expired-events", "TTL keys + expired events alone",
		"redis defaults (hz 10), notify-keyspace-events Ex; the value is gone when the event comes",
		peer.Traits{Crash: "all that fires while no one listens", Race: "every listener handles every event", Ladder: "by hand",
			Cancel: "DEL"})
}

func setAll(ctx context.Context, rdb *redis.Client, jobs []peer.Job) error {
	return pipelined(ctx, rdb, jobs, func(p redis.Pipeliner, j peer.Job) { p.Do(ctx, "SET", j.ID, j.Body, "PXAT", j.Due.UnixMilli()) })
}

func handleExpired(ctx context.Context, p *pattern, handlers int, call peer.Call) error {
	if err := p.rdb.ConfigSet(ctx, "notify-keyspace-events", "Ex").Err(); err != nil {
		return fmt.Errorf("switch the events on: %w", err)
	}

	sub := p.rdb.Subscribe(ctx, "__keyevent@0__:expired")
	if _, err := sub.Receive(ctx); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}

	jobs := p.workers.pool(handlers, call)
	receive(p.workers, 1, sub.Channel(redis.WithChannelSize(200_000)), func(ctx context.Context, m *redis.Message) error {
		return send(ctx, jobs, m.Payload)
	})
	p.workers.run(func(ctx context.Context) error {
		<-ctx.Done()
		return sub.Close()
	})
	return nil
}
