package adapter

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
)

const shardCount = 8

var shardPop = redis.NewScript(`
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due == 0 then return {due, {}} end
local bodies = redis.call('HMGET', KEYS[2], unpack(due))
redis.call('ZREM', KEYS[1], unpack(due))
redis.call('HDEL', KEYS[2], unpack(due))
return {due, bodies}`)

// zsetShards is the pattern for many jobs: ids in several sorted sets, bodies in hashes.
func zsetShards() peer.Entry {
	return pattern{put: addToShards, work: pollShards}.entry("zset-hash-shards", "sorted sets + hashes, 8 shards, polled each 100 ms",
		"a poller a shard, 1000 a script; no lease",
		peer.Traits{Crash: "popped jobs, not yet handled", Race: "safe", Ladder: "by hand", Cancel: "ZREM and HDEL"})
}

func shardNames(n int) (zset, hash string) {
	s := "delayed:{" + strconv.Itoa(n) + "}"
	return s, s + ":body"
}

// addToShards adds one job in a transaction, and many without.
func addToShards(ctx context.Context, rdb *redis.Client, jobs []peer.Job) error {
	send := rdb.Pipelined
	if len(jobs) == 1 {
		send = rdb.TxPipelined
	}

	_, err := send(ctx, func(p redis.Pipeliner) error {
		for _, j := range jobs {
			h := fnv.New32a()
			h.Write([]byte(j.ID))
			zset, hash := shardNames(int(h.Sum32() % shardCount))
			p.HSet(ctx, hash, j.ID, j.Body)
			p.ZAdd(ctx, zset, redis.Z{Score: float64(j.Due.UnixMilli()), Member: j.ID})
		}
		return nil
	})
	return err
}

func pollShards(_ context.Context, p *pattern, handlers int, call peer.Call) error {
	jobs := p.workers.pool(handlers, call)
	for n := range shardCount {
		zset, hash := shardNames(n)
		p.workers.poll(100*time.Millisecond, func(ctx context.Context) (int, error) {
			got, err := shardPop.Run(ctx, p.rdb, []string{zset, hash}, nowMS(), page).Slice()
			if err != nil {
				return 0, fmt.Errorf("pop: %w", err)
			}

			ids, ok := got[0].([]any)
			if !ok {
				return 0, fmt.Errorf("pop: unexpected reply %T", got[0])
			}

			for _, id := range ids {
				if err := send(ctx, jobs, fmt.Sprint(id)); err != nil {
					return 0, err
				}
			}

			return len(ids), nil
		})
	}

	return nil
}
