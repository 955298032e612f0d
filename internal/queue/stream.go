package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/pace"
)

// stream processes new entries as a member of a group, and entries of dead members.
func (c *Consumer) stream(ctx context.Context) {
	slots := make(chan struct{}, c.o.Concurrency)
	again := c.again(&pace.Loop{Failure: "cannot read the stream, retrying", Recovered: "reading the stream again"})
	r := streamReader{c: c}

	for ctx.Err() == nil {
		// At least one slot is free before entries are read.
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}

		<-slots

		entries, takenOver, err := r.next(ctx, int64(cap(slots)-len(slots)))
		if err != nil && !errors.Is(err, redis.Nil) {
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

// streamReader reads the entries of a stream for a consumer of a group.
type streamReader struct {
	c       *Consumer
	grouped bool      // the group exists
	checked time.Time // when no entry of a dead member was left
}

// next returns at most n entries. takenOver reports whether they are from a dead member of the group. The error is
// redis.Nil if there was no entry for a while.
func (r *streamReader) next(ctx context.Context, n int64) (entries []redis.XMessage, takenOver bool, err error) {
	if err := r.createGroup(ctx); err != nil {
		return nil, false, err
	}

	if time.Since(r.checked) > r.c.o.Idle/2 {
		entries, err = r.c.left(ctx, n)
		if err != nil || len(entries) > 0 {
			return entries, true, r.lost(err)
		}

		r.checked = time.Now()
	}

	entries, err = r.c.fresh(ctx, n)
	return entries, false, r.lost(err)
}

// createGroup creates the group at the beginning of the stream, so that entries pushed before count.
func (r *streamReader) createGroup(ctx context.Context) error {
	if r.grouped {
		return nil
	}

	err := r.c.o.Redis.XGroupCreateMkStream(ctx, r.c.o.Key, r.c.o.Group, "0").Err()
	if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
		return fmt.Errorf("create the group: %w", err)
	}

	r.grouped = true
	return nil
}

// lost notes that a restarted Redis has lost the group, and returns err.
func (r *streamReader) lost(err error) error {
	if redis.HasErrorPrefix(err, "NOGROUP") {
		r.grouped = false
	}
	return err
}

// fresh reads new entries. The call does not end with ctx, because entries on their way to a cancelled call would stay
// pending until another consumer claims them.
func (c *Consumer) fresh(ctx context.Context, n int64) ([]redis.XMessage, error) {
	s, err := c.o.Redis.XReadGroup(context.WithoutCancel(ctx), &redis.XReadGroupArgs{Group: c.o.Group, Consumer: c.o.Consumer,
		Streams: []string{c.o.Key, ">"}, Count: n, Block: c.o.Block}).Result()
	if err != nil || len(s) == 0 {
		return nil, err
	}

	return s[0].Messages, nil
}

// left claims entries that were idle for Options.Idle, from dead members of the group.
func (c *Consumer) left(ctx context.Context, n int64) ([]redis.XMessage, error) {
	m, _, err := c.o.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: c.o.Key, Group: c.o.Group, Consumer: c.o.Consumer,
		MinIdle: c.o.Idle, Start: "0-0", Count: n}).Result()
	return m, err
}

// message processes one entry of the stream and acknowledges it.
func (c *Consumer) message(m redis.XMessage, takenOver bool) {
	parsed, err := ParseFields(m.Values)
	if err != nil {
		c.o.Logger.Error("cannot read an entry of the stream, acknowledging it", zap.String("stream", c.o.Key), zap.String("entry", m.ID),
			zap.Error(err))
		c.acknowledge(m.ID)
		return
	}

	e := &Received{Entry: *parsed, takenOver: takenOver}
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

// hold resets an entry's idle time during the work.
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

// acknowledge removes the entry from the group's pending ones. If that fails, another consumer claims the entry and
// skips it, because its attempt is over.
func (c *Consumer) acknowledge(id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.work), 30*time.Second)
	defer cancel()
	again := c.again(&pace.Loop{Failure: "cannot acknowledge an entry, retrying", Recovered: "acknowledging again"})
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
