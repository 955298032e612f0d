package adapter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
)

// buckets rebuilds the design of Youzan's delay queue (ouqiang/delay-queue) on Redis: jobs by id, three sorted sets of
// job ids by due second (the buckets), and a list of due jobs from which workers take. A job that a worker has taken
// becomes due again after bucketTTR, unless the worker has finished the job by then.
type buckets struct{ onRedis }

const (
	bucketCount = 3
	bucketTTR   = 60 * time.Second
)

func bucketsQueue() peer.Entry {
	info := patternInfo("buckets", "job pool, 3 buckets, ready list (Youzan's design)",
		"1 s tick a bucket, as in ouqiang/delay-queue v0.4 (rebuilt: its module cannot be fetched), without its HTTP; due rounded "+
			"up to the second",
		peer.Traits{Crash: "nothing after the pop (time to run); all between pop and re-add", Race: "two tickers can push twice",
			Ladder: "by the caller",
			Cancel: "by id"})
	return peer.Entry{Info: info, New: func() peer.Peer { return &buckets{} }}
}

func bucketOf(id string) string {
	// The ids end in a counter, which spreads them evenly.
	return "bucket:" + strconv.Itoa(int(id[len(id)-1])%bucketCount)
}

func ceilSecond(t time.Time) int64 { return (t.UnixMilli() + 999) / 1000 }

func (b *buckets) Schedule(ctx context.Context, j peer.Job) error {
	if err := b.rdb.Set(ctx, j.ID, j.Body, 0).Err(); err != nil {
		return err
	}
	return b.rdb.ZAdd(ctx, bucketOf(j.ID), redis.Z{Score: float64(ceilSecond(j.Due)), Member: j.ID}).Err()
}

func (b *buckets) ScheduleBatch(ctx context.Context, jobs []peer.Job) error {
	return b.pipelined(ctx, jobs, func(p redis.Pipeliner, j peer.Job) {
		p.Set(ctx, j.ID, j.Body, 0)
		p.ZAdd(ctx, bucketOf(j.ID), redis.Z{Score: float64(ceilSecond(j.Due)), Member: j.ID})
	})
}

func (b *buckets) Work(_ context.Context, handlers int, handle peer.Handle) error {
	for n := range bucketCount {
		bucket := "bucket:" + strconv.Itoa(n)
		b.workers.every(time.Second, func(ctx context.Context) error { return b.tick(ctx, bucket) })
	}

	for range handlers {
		b.workers.run(func(ctx context.Context) error {
			return b.blockingPop(ctx, readyKey, func(id string) error { return b.handleOne(ctx, id, handle) })
		})
	}

	return nil
}

// tick moves the due ids one by one, as the original does.
func (b *buckets) tick(ctx context.Context, bucket string) error {
	for {
		head, err := b.rdb.ZRangeWithScores(ctx, bucket, 0, 0).Result()
		if err != nil {
			return fmt.Errorf("read the bucket: %w", err)
		}
		if len(head) == 0 || int64(head[0].Score) > time.Now().Unix() {
			return nil
		}

		id := fmt.Sprint(head[0].Member)
		if err := b.rdb.Get(ctx, id).Err(); err == nil {
			if err := b.rdb.LPush(ctx, readyKey, id).Err(); err != nil {
				return fmt.Errorf("push: %w", err)
			}
		} else if !errors.Is(err, redis.Nil) {
			return fmt.Errorf("read the job: %w", err)
		}

		if err := b.rdb.ZRem(ctx, bucket, id).Err(); err != nil {
			return fmt.Errorf("remove from the bucket: %w", err)
		}
	}
}

func (b *buckets) handleOne(ctx context.Context, id string, handle peer.Handle) error {
	body, err := b.rdb.Get(ctx, id).Result()
	if errors.Is(err, redis.Nil) {
		return nil // another handler has finished the job
	}
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}

	back := float64(time.Now().Add(bucketTTR).Unix())
	if err := b.rdb.ZAdd(ctx, bucketOf(id), redis.Z{Score: back, Member: id}).Err(); err != nil {
		return fmt.Errorf("put back: %w", err)
	}
	if !strings.HasPrefix(body, "{") {
		return fmt.Errorf("%.40q is no scheduled job", body)
	}

	handle(id)
	if err := b.rdb.Del(ctx, id).Err(); err != nil {
		return fmt.Errorf("finish: %w", err)
	}

	return nil
}
