package adapter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
)

const zsetKey = "delayed"

// zset is the common part of the polled sorted sets. The member is id and body, the score the
// due time in ms.
type zset struct {
	onRedis
	work func(z *zset, handlers int, handle peer.Handle)
}

func (z *zset) Schedule(ctx context.Context, j peer.Job) error {
	return z.rdb.ZAdd(ctx, zsetKey, redis.Z{Score: float64(j.Due.UnixMilli()), Member: pack(j)}).Err()
}

func (z *zset) ScheduleBatch(ctx context.Context, jobs []peer.Job) error {
	members := make([]redis.Z, len(jobs))
	for i, j := range jobs {
		members[i] = redis.Z{Score: float64(j.Due.UnixMilli()), Member: pack(j)}
	}

	return z.rdb.ZAdd(ctx, zsetKey, members...).Err()
}

func (z *zset) Work(_ context.Context, handlers int, handle peer.Handle) error {
	z.work(z, handlers, handle)
	return nil
}

func nowMS() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

const zsetPage = 1000

// zsetPoll is the first tutorial one finds: each second, read the due members
// and ZREM them one by one; who removed it handles it.
func zsetPoll() peer.Entry {
	info := patternInfo("zset-1s", "sorted set, polled each 1 s", "one poller, ZRANGEBYSCORE LIMIT 1000, a ZREM for each",
		peer.Traits{Crash: "removed jobs, not yet handled", Race: "safe where ZREM's reply decides", Ladder: "by hand",
			Cancel: "ZREM with the whole body"})
	return peer.Entry{Info: info, New: func() peer.Peer {
		return &zset{work: func(z *zset, handlers int, handle peer.Handle) {
			jobs := z.workers.pool(handlers, handle)
			z.workers.every(time.Second, func(ctx context.Context) error { return z.pollOnce(ctx, jobs) })
		}}
	}}
}

func (z *zset) pollOnce(ctx context.Context, jobs chan<- string) error {
	return sendPages(ctx, jobs, func() ([]string, error) {
		return z.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: zsetKey, Start: "-inf", Stop: nowMS(), ByScore: true, Count: zsetPage}).Result()
	}, func(m string) (bool, error) {
		n, err := z.rdb.ZRem(ctx, zsetKey, m).Result()
		return n > 0, err
	})
}

// sendPages reads pages of due members up to the first that is not full. It sends the id of each member that gets reports as its own.
func sendPages(ctx context.Context, jobs chan<- string, read func() ([]string, error), gets func(member string) (bool, error)) error {
	for {
		due, err := read()
		if err != nil {
			return fmt.Errorf("read the due: %w", err)
		}

		for _, m := range due {
			ours, err := gets(m)
			if err != nil {
				return fmt.Errorf("remove: %w", err)
			}
			if !ours {
				continue
			}

			id, err := unpack([]byte(m))
			if err != nil {
				return err
			}
			if err := send(ctx, jobs, id); err != nil {
				return err
			}
		}

		if len(due) < zsetPage {
			return nil
		}
	}
}

var popScript = redis.NewScript(`
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) end
return due`)

// zsetLua is that pattern grown up: read and remove in one script, each 10 ms.
func zsetLua() peer.Entry {
	info := patternInfo("zset-lua-10ms", "sorted set + Lua pop, polled each 10 ms",
		"one poller, 1000 a script, again at once while pages are full; no lease",
		peer.Traits{Crash: "popped jobs, not yet handled", Race: "safe", Ladder: "by hand", Cancel: "ZREM with the whole body"})
	return peer.Entry{Info: info, New: func() peer.Peer {
		return &zset{work: func(z *zset, handlers int, handle peer.Handle) {
			jobs := z.workers.pool(handlers, handle)
			z.workers.every(10*time.Millisecond, func(ctx context.Context) error { return z.popAll(ctx, jobs) })
		}}
	}}
}

func (z *zset) popAll(ctx context.Context, jobs chan<- string) error {
	return sendPages(ctx, jobs, func() ([]string, error) {
		return popScript.Run(ctx, z.rdb, []string{zsetKey}, nowMS(), zsetPage).StringSlice()
	}, func(string) (bool, error) { return true, nil })
}

var carryScript = redis.NewScript(`
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) redis.call('LPUSH', KEYS[2], unpack(due)) end
return #due`)

const readyKey = "ready"

// zsetCarry moves the due to a list, from which consumers pop.
func zsetCarry() peer.Entry {
	info := patternInfo("zset-list-1s", "sorted set carried to a list each 1 s",
		"one carrier, 1000 a script; each handler blocks in BRPOP",
		peer.Traits{Crash: "popped jobs, not yet handled", Race: "safe", Ladder: "by hand",
			Cancel: "ZREM with the whole body, until carried"})
	return peer.Entry{Info: info, New: func() peer.Peer {
		return &zset{work: func(z *zset, handlers int, handle peer.Handle) {
			z.workers.every(time.Second, z.carryAll)
			for range handlers {
				z.workers.run(func(ctx context.Context) error { return z.popReady(ctx, handle) })
			}
		}}
	}}
}

func (z *zset) carryAll(ctx context.Context) error {
	for {
		n, err := carryScript.Run(ctx, z.rdb, []string{zsetKey, readyKey}, nowMS(), zsetPage).Int()
		if err != nil {
			return fmt.Errorf("carry: %w", err)
		}
		if n < zsetPage {
			return nil
		}
	}
}

// popReady handles the jobs of the ready list until ctx ends.
func (r *onRedis) popReady(ctx context.Context, handle peer.Handle) error {
	return r.blockingPop(ctx, readyKey, func(m string) error {
		id, err := unpack([]byte(m))
		if err != nil {
			return err
		}

		handle(id)
		return nil
	})
}

func (r *onRedis) blockingPop(ctx context.Context, list string, do func(string) error) error {
	for ctx.Err() == nil {
		// One second at most: a cancelled context does not wake a blocked read.
		popped, err := r.rdb.BRPop(ctx, time.Second, list).Result()
		if err == redis.Nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("pop: %w", err)
		}
		if err := do(popped[1]); err != nil {
			return err
		}
	}
	return nil
}
