package consume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/queue"
)

// stream takes entries as a member of a group, new ones and those that dead
// members left.
func (c *Consumer) stream(ctx context.Context) {
	slots := make(chan struct{}, c.o.Concurrency)
	again := c.again("read the stream")
	looked, grouped := time.Time{}, false
	for ctx.Err() == nil {
		if !grouped {
			// From the beginning: what came before the group was made counts.
			err := c.o.Redis.XGroupCreateMkStream(ctx, c.o.Key, c.o.Group, "0").Err()
			if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
				again.Wait(ctx, fmt.Errorf("make the group: %w", err))
				continue
			}
			grouped = true
		}
		// One slot is taken before entries are asked for.
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		<-slots
		free := int64(cap(slots) - len(slots))
		var entries []redis.XMessage
		var err error
		takenOver := time.Since(looked) > c.o.Idle/2
		if takenOver {
			if entries, err = c.left(ctx, free); err == nil && len(entries) == 0 {
				looked = time.Now()
			}
		}
		if err == nil && len(entries) == 0 {
			takenOver = false
			entries, err = c.fresh(ctx, free)
		}
		switch {
		case errors.Is(err, redis.Nil):
			again.Succeed()
			continue
		case err != nil:
			if redis.HasErrorPrefix(err, "NOGROUP") {
				grouped = false // a restarted Redis has forgotten it
			}
			again.Wait(ctx, err)
			continue
		}
		again.Succeed()
		for _, m := range entries {
			slots <- struct{}{}
			c.wg.Go(func() {
				defer func() { <-slots }()
				c.message(m, takenOver)
			})
		}
	}
}

// fresh reads entries that nobody has had. The call is not ended by ctx, so
// that what is on its way is not left for others to find.
func (c *Consumer) fresh(ctx context.Context, n int64) ([]redis.XMessage, error) {
	s, err := c.o.Redis.XReadGroup(context.WithoutCancel(ctx), &redis.XReadGroupArgs{Group: c.o.Group, Consumer: c.o.Consumer,
		Streams: []string{c.o.Key, ">"}, Count: n, Block: c.o.Block}).Result()
	if err != nil || len(s) == 0 {
		return nil, err
	}
	return s[0].Messages, nil
}

// left takes over entries that nobody has worked on for a while.
func (c *Consumer) left(ctx context.Context, n int64) ([]redis.XMessage, error) {
	m, _, err := c.o.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: c.o.Key, Group: c.o.Group, Consumer: c.o.Consumer,
		MinIdle: c.o.Idle, Start: "0-0", Count: n}).Result()
	return m, err
}

// message works on one entry of the stream and acknowledges it.
func (c *Consumer) message(m redis.XMessage, takenOver bool) {
	parsed, err := queue.ParseFields(m.Values)
	if err != nil {
		c.o.Logger.Error("an entry cannot be read; it is acknowledged unread", zap.String("stream", c.o.Key), zap.String("entry", m.ID),
			zap.Error(err))
		c.acknowledge(m.ID)
		return
	}
	e := &Entry{Entry: *parsed, takenOver: takenOver}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c.hold(m.ID, stop)
	}()
	reported := c.one(e)
	close(stop)
	<-stopped
	if reported {
		c.acknowledge(m.ID)
	}
}

// hold sets an entry's idle time back while it is worked on.
func (c *Consumer) hold(id string, stop <-chan struct{}) {
	tick := time.NewTicker(c.o.Idle / 3)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(c.work, c.o.Idle/3)
		_ = c.o.Redis.XClaimJustID(ctx, &redis.XClaimArgs{Stream: c.o.Key, Group: c.o.Group, Consumer: c.o.Consumer,
			Messages: []string{id}}).Err()
		cancel()
	}
}

// acknowledge tells the group. If it does not arrive, somebody takes the entry
// over, and finds that its attempt is over.
func (c *Consumer) acknowledge(id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.work), 30*time.Second)
	defer cancel()
	again := c.again("acknowledge an entry")
	for {
		err := c.o.Redis.XAck(ctx, c.o.Key, c.o.Group, id).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOGROUP") {
			again.Succeed()
			return
		}
		if !again.Wait(ctx, err) {
			return
		}
	}
}
