package adapter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
)

const (
	zsetKey  = "delayed"
	readyKey = "ready"
)

// addToSet adds the jobs to a sorted set. The member is id and body, the score the due time in ms.
func addToSet(ctx context.Context, rdb *redis.Client, jobs []peer.Job) error {
	members := make([]redis.Z, len(jobs))
	for i, j := range jobs {
		members[i] = redis.Z{Score: float64(j.Due.UnixMilli()), Member: pack(j)}
	}

	return rdb.ZAdd(ctx, zsetKey, members...).Err()
}

func nowMS() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// zsetPoll is the first tutorial one finds: each second, read the due members
// and ZREM them one by one; who removed it handles it.
func zsetPoll() peer.Entry {
	work := func(_ context.Context, p *pattern, handlers int, call peer.Call) error {
		jobs := p.workers.pool(handlers, call)
		p.workers.poll(time.Second, func(ctx context.Context) (int, error) {
			due, err := p.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: zsetKey, Start: "-inf", Stop: nowMS(), ByScore: true, Count: page}).Result()
			if err != nil {
				return 0, fmt.Errorf("read the due: %w", err)
			}

			for _, m := range due {
				n, err := p.rdb.ZRem(ctx, zsetKey, m).Result()
				if err == nil && n > 0 {
					err = sendPacked(ctx, jobs, m)
				}

				if err != nil {
					return 0, fmt.Errorf("remove: %w", err)
				}
			}

			return len(due), nil
		})
		return nil
	}
	return pattern{put: addToSet, work: work}.entry("zset-1s", "sorted set, polled each 1 s",
		"one poller, ZRANGEBYSCORE LIMIT 1000, a ZREM for each",
		peer.Traits{Crash: "removed jobs, not yet handled", Race: "safe where ZREM's reply decides", Ladder: "by hand",
			Cancel: "ZREM with the whole body"})
}

// sendPacked sends the ids of packed jobs.
func sendPacked(ctx context.Context, jobs chan<- string, packed ...string) error {
	for _, p := range packed {
		id, err := unpack([]byte(p))
		if err != nil {
			return err
		}
		if err := send(ctx, jobs, id); err != nil {
			return err
		}
	}
	return nil
}

var popScript = redis.NewScript(`
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) end
return due`)

// zsetLua is that pattern grown up: read and remove in one script, each 10 ms.
func zsetLua() peer.Entry {
	work := func(_ context.Context, p *pattern, handlers int, call peer.Call) error {
		jobs := p.workers.pool(handlers, call)
		p.workers.poll(10*time.Millisecond, func(ctx context.Context) (int, error) {
			due, err := popScript.Run(ctx, p.rdb, []string{zsetKey}, nowMS(), page).StringSlice()
			if err != nil {
				return 0, fmt.Errorf("pop: %w", err)
			}

			return len(due), sendPacked(ctx, jobs, due...)
		})
		return nil
	}
	return pattern{put: addToSet, work: work}.entry("zset-lua-10ms", "sorted set + Lua pop, polled each 10 ms",
		"one poller, 1000 a script, again at once while pages are full; no lease",
		peer.Traits{Crash: "popped jobs, not yet handled", Race: "safe", Ladder: "by hand", Cancel: "ZREM with the whole body"})
}

var carryScript = redis.NewScript(`
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) redis.call('LPUSH', KEYS[2], unpack(due)) end
return #due`)

// zsetCarry moves the due to a list, from which consumers pop.
func zsetCarry() peer.Entry {
	work := func(_ context.Context, p *pattern, handlers int, call peer.Call) error {
		p.workers.poll(time.Second, func(ctx context.Context) (int, error) {
			return carryScript.Run(ctx, p.rdb, []string{zsetKey, readyKey}, nowMS(), page).Int()
		})
		p.popEach(handlers, func(ctx context.Context, m string) error {
			id, err := unpack([]byte(m))
			if err != nil {
				return err
			}

			return call(ctx, peer.Job{ID: id})
		})
		return nil
	}
	return pattern{put: addToSet, work: work}.entry("zset-list-1s", "sorted set carried to a list each 1 s",
		"one carrier, 1000 a script; each handler blocks in BRPOP",
		peer.Traits{Crash: "popped jobs, not yet handled", Race: "safe", Ladder: "by hand",
			Cancel: "ZREM with the whole body, until carried"})
}
