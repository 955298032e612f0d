package adapter

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
)

// expired is the pattern on which this project builds, alone: a key with a TTL, and a
// subscriber that handles its expired event.
type expired struct{ onRedis }

func expiredEvents() peer.Entry {
	info := patternInfo("expired-events", "TTL keys + expired events alone",
		"redis defaults (hz 10), notify-keyspace-events Ex; the value is gone when the event comes",
		peer.Traits{Crash: "all that fires while no one listens", Race: "every listener handles every event", Ladder: "by hand",
			Cancel: "DEL"})
	return peer.Entry{Info: info, New: func() peer.Peer { return &expired{} }}
}

func (e *expired) Schedule(ctx context.Context, j peer.Job) error {
	return e.rdb.Do(ctx, "SET", j.ID, j.Body, "PXAT", j.Due.UnixMilli()).Err()
}

func (e *expired) ScheduleBatch(ctx context.Context, jobs []peer.Job) error {
	return e.pipelined(ctx, jobs, func(p redis.Pipeliner, j peer.Job) { p.Do(ctx, "SET", j.ID, j.Body, "PXAT", j.Due.UnixMilli()) })
}

func (e *expired) Work(ctx context.Context, handlers int, handle peer.Handle) error {
	if err := e.rdb.ConfigSet(ctx, "notify-keyspace-events", "Ex").Err(); err != nil {
		return fmt.Errorf("switch the events on: %w", err)
	}

	sub := e.rdb.Subscribe(ctx, "__keyevent@0__:expired")
	if _, err := sub.Receive(ctx); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}

	jobs := e.workers.pool(handlers, handle)
	events := sub.Channel(redis.WithChannelSize(200_000))
	e.workers.run(func(ctx context.Context) error {
		defer sub.Close()
		for {
			select {
			case <-ctx.Done():
				return nil
			case m, ok := <-events:
				if !ok {
					return fmt.Errorf("the subscription was closed")
				}
				if err := send(ctx, jobs, m.Payload); err != nil {
					return err
				}
			}
		}
	})
	return nil
}
