package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// A shard is too large if it holds more than largeFactor times the mean, and at least largeShard
// notices: in a service with few notices a difference costs nothing.
const (
	largeFactor = 3
	largeShard  = 1000
)

// sizes reports shards with far more notices than the mean. All notices of one order key are in one
// shard, so an id that is used for very many notices fills it.
func (r *run) sizes(ctx context.Context) {
	if r.space.Shards < 2 {
		return
	}

	prefixes, err := r.conn.SMembers(ctx, r.space.Routes()).Result()
	if err != nil {
		return // the check prefixes reports it
	}

	held := make([]int64, r.space.Shards)
	for i := range held {
		for _, p := range prefixes {
			n, err := r.conn.HLen(ctx, r.space.Records(keys.Partition{Prefix: p, Shard: r.space.First() + i})).Result()
			if err != nil {
				return
			}

			held[i] += n
		}
	}

	for _, i := range tooLarge(held) {
		r.add(Finding{Check: "shards", Severity: Warning,
			Message: fmt.Sprintf("shard {%s} holds %s, more than %d times the mean of all shards", r.space.Tag(r.space.First()+i),
				notice.Count(held[i], "notice"), largeFactor),
			Remedy: "use distinct ids: notices with the same app, module and id, without a trailing ~ and digits, are in one shard"})
	}
}

// replyTime is how long a reply of the largest size may take.
const replyTime = time.Second

// bigReply reads a reply of the largest size, and returns how long that took.
func (n *node) bigReply(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := wire.BigReply(ctx, n.c, wire.MaxBatchBytes)
	return time.Since(began).Round(time.Millisecond), err
}

// replies checks that a reply of the largest size gets through, and soon.
func (n *node) replies(ctx context.Context) {
	const check = "large replies"
	took, err := n.bigReply(ctx)
	if err == nil && took > replyTime { // a busy machine may have delayed one
		took, err = n.bigReply(ctx)
	}

	f := Finding{Check: check, Severity: OK, Message: fmt.Sprintf("a reply of %s took %s", size(wire.MaxBatchBytes), took)}
	var answer redis.Error
	switch {
	case errors.As(err, &answer):
		return // the rights are checked elsewhere
	case err != nil:
		f.Severity, f.Message = Warning, fmt.Sprintf("a reply of %s does not get through, so the service works with smaller ones: %s",
			size(wire.MaxBatchBytes), wire.BufferLimits(ctx, n.c))
	case took > replyTime:
		f.Severity = Warning
	}

	if f.Severity == Warning {
		f.Remedy = "client-output-buffer-limit normal 0 0 0, and no maxmemory-clients below 64 MiB; else a faster connection to Redis"
	}

	n.add(f)
}

// tooLarge returns the indexes of the shards that are too large.
func tooLarge(held []int64) (list []int) {
	var sum int64
	for _, n := range held {
		sum += n
	}

	for i, n := range held {
		if n >= largeShard && n*int64(len(held)) > largeFactor*sum {
			list = append(list, i)
		}
	}

	return list
}
