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

const (
	bucketCount = 3
	bucketTTR   = 60 * time.Second
)

// bucketsQueue rebuilds the design of Youzan's delay queue (ouqiang/delay-queue) on Redis: jobs by id, three sorted sets of
// job ids by due second (the buckets), and a list of due jobs from which workers take. A job that a worker has taken
// becomes due again after bucketTTR, unless the worker has finished the job by then.
func bucketsQueue() peer.Entry {
	return pattern{put: addToBuckets, work: workBuckets}.entry("buckets", "job pool, 3 buckets, ready list (Youzan's design)",
		"1 s tick a bucket, as in ouqiang/delay-queue v0.4 (rebuilt: its module cannot be fetched), without its HTTP; due rounded "+
			"up to the second",
		peer.Traits{Crash: "nothing after the pop (time to run); all between pop and re-add", Race: "two tickers can push twice",
			Ladder: "by the caller",
			Cancel: "by id"})
}

func bucketOf(id string) string {
	// The ids end in a counter, which spreads them evenly.
	return "bucket:" + strconv.Itoa(int(id[len(id)-1])%bucketCount)
}

func ceilSecond(t time.Time) int64 { return (t.UnixMilli() + 999) / 1000 }

// addToBuckets adds one job with a round trip for each command, as the original does, and many with one for all.
func addToBuckets(ctx context.Context, rdb *redis.Client, jobs []peer.Job) error {
	add := func(c redis.Cmdable, j peer.Job) error {
		err := c.Set(ctx, j.ID, j.Body, 0).Err()
		return errors.Join(err, c.ZAdd(ctx, bucketOf(j.ID), redis.Z{Score: float64(ceilSecond(j.Due)), Member: j.ID}).Err())
	}
	if len(jobs) == 1 {
		return add(rdb, jobs[0])
	}

	return pipelined(ctx, rdb, jobs, func(p redis.Pipeliner, j peer.Job) { _ = add(p, j) }) // the commands have no results yet
}

func workBuckets(_ context.Context, p *pattern, handlers int, call peer.Call) error {
	for n := range bucketCount {
		bucket := "bucket:" + strconv.Itoa(n)
		p.workers.every(time.Second, func(ctx context.Context) error { return p.tick(ctx, bucket) })
	}

	p.popEach(handlers, func(ctx context.Context, id string) error { return p.handleOne(ctx, id, call) })
	return nil
}

// tick moves the due ids one by one, as the original does.
func (p *pattern) tick(ctx context.Context, bucket string) error {
	for {
		head, err := p.rdb.ZRangeWithScores(ctx, bucket, 0, 0).Result()
		if err != nil {
			return fmt.Errorf("read the bucket: %w", err)
		}
		if len(head) == 0 || int64(head[0].Score) > time.Now().Unix() {
			return nil
		}

		id := fmt.Sprint(head[0].Member)
		if err := p.rdb.Get(ctx, id).Err(); err == nil {
			if err := p.rdb.LPush(ctx, readyKey, id).Err(); err != nil {
				return fmt.Errorf("push: %w", err)
			}
		} else if !errors.Is(err, redis.Nil) {
			return fmt.Errorf("read the job: %w", err)
		}

		if err := p.rdb.ZRem(ctx, bucket, id).Err(); err != nil {
			return fmt.Errorf("remove from the bucket: %w", err)
		}
	}
}

func (p *pattern) handleOne(ctx context.Context, id string, call peer.Call) error {
	body, err := p.rdb.Get(ctx, id).Result()
	if errors.Is(err, redis.Nil) {
		return nil // another handler has finished the job
	}
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}

	back := float64(time.Now().Add(bucketTTR).Unix())
	if err := p.rdb.ZAdd(ctx, bucketOf(id), redis.Z{Score: back, Member: id}).Err(); err != nil {
		return fmt.Errorf("put back: %w", err)
	}
	if !strings.HasPrefix(body, "{") {
		return fmt.Errorf("%.40q is no scheduled job", body)
	}

	if err := call(ctx, peer.Job{ID: id}); err != nil {
		return err
	}
	if err := p.rdb.Del(ctx, id).Err(); err != nil {
		return fmt.Errorf("finish: %w", err)
	}

	return nil
}
