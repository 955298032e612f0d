package store

import (
	"context"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
)

// Push appends an entry to a list or stream by itself, where the settle cannot
// do it: in a cluster, when the target lies in another slot.
func Push(ctx context.Context, c redis.UniversalClient, p *notice.Push) error {
	if !p.Stream {
		return Wrap("push", c.RPush(ctx, p.Key, p.Entry[0]).Err())
	}
	values := make([]any, len(p.Entry))
	for i, e := range p.Entry {
		values[i] = e
	}
	return Wrap("push", c.XAdd(ctx, &redis.XAddArgs{Stream: p.Key, MaxLen: p.MaxLen, Approx: p.MaxLen > 0, Values: values}).Err())
}
