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

// shards is the pattern for many jobs: ids in several sorted sets, bodies in
// hashes beside them.
type shards struct{ onRedis }

const shardCount = 8

var shardPop = redis.NewScript(`
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due == 0 then return {due, {}} end
local bodies = redis.call('HMGET', KEYS[2], unpack(due))
redis.call('ZREM', KEYS[1], unpack(due))
redis.call('HDEL', KEYS[2], unpack(due))
return {due, bodies}`)

func zsetShards() peer.Entry {
	info := patternInfo("zset-hash-shards", "sorted sets + hashes, 8 shards, polled each 100 ms",
		"a poller a shard, 1000 a script; no lease",
		peer.Traits{Crash: "popped jobs, not yet handled", Race: "safe", Ladder: "by hand", Cancel: "ZREM and HDEL"})
	return peer.Entry{Info: info, New: func() peer.Peer { return &shards{} }}
}

func shardKeys(id string) (zset, hash string) {
	h := fnv.New32a()
	h.Write([]byte(id))
	return shardNames(int(h.Sum32() % shardCount))
}

func shardNames(n int) (zset, hash string) {
	s := "delayed:{" + strconv.Itoa(n) + "}"
	return s, s + ":body"
}

func addShard(ctx context.Context, p redis.Pipeliner, j peer.Job) {
	zs, hs := shardKeys(j.ID)
	p.HSet(ctx, hs, j.ID, j.Body)
	p.ZAdd(ctx, zs, redis.Z{Score: float64(j.Due.UnixMilli()), Member: j.ID})
}

func (s *shards) Schedule(ctx context.Context, j peer.Job) error {
	_, err := s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		addShard(ctx, p, j)
		return nil
	})
	return err
}

func (s *shards) ScheduleBatch(ctx context.Context, jobs []peer.Job) error {
	return s.pipelined(ctx, jobs, func(p redis.Pipeliner, j peer.Job) { addShard(ctx, p, j) })
}

func (s *shards) Work(_ context.Context, handlers int, handle peer.Handle) error {
	jobs := s.workers.pool(handlers, handle)
	for n := range shardCount {
		s.workers.every(100*time.Millisecond, func(ctx context.Context) error { return s.sendDue(ctx, n, jobs) })
	}

	return nil
}

// sendDue sends all due jobs of a shard to the handlers, a page at a time.
func (s *shards) sendDue(ctx context.Context, n int, jobs chan<- string) error {
	for {
		ids, err := s.pop(ctx, n)
		if err != nil {
			return err
		}

		for _, id := range ids {
			if err := send(ctx, jobs, fmt.Sprint(id)); err != nil {
				return err
			}
		}

		if len(ids) < zsetPage {
			return nil
		}
	}
}

// pop removes a page of due jobs from a shard, and returns their ids.
func (s *shards) pop(ctx context.Context, n int) ([]any, error) {
	zs, hs := shardNames(n)
	got, err := shardPop.Run(ctx, s.rdb, []string{zs, hs}, nowMS(), zsetPage).Slice()
	if err != nil {
		return nil, fmt.Errorf("pop: %w", err)
	}

	ids, ok := got[0].([]any)
	if !ok {
		return nil, fmt.Errorf("pop: unexpected reply %T", got[0])
	}

	return ids, nil
}
