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

// pushAll pushes the jobs to a list whose consumers find the due jobs themselves. The due time precedes id and body,
// because a list has no scores.
func pushAll(ctx context.Context, rdb *redis.Client, jobs []peer.Job) error {
	entries := make([]any, len(jobs))
	for i, j := range jobs {
		entries[i] = append(strconv.AppendInt(nil, j.Due.UnixMilli(), 10), append([]byte{' '}, pack(j)...)...)
	}

	return rdb.LPush(ctx, readyKey, entries...).Err()
}

func readEntry(s string) (due time.Time, id string, err error) {
	ms, rest, ok := strings.Cut(s, " ")
	n, numErr := strconv.ParseInt(ms, 10, 64)
	if !ok || numErr != nil {
		return due, "", fmt.Errorf("%.40q is no scheduled job", s)
	}

	id, err = unpack([]byte(rest))
	return time.UnixMilli(n), id, err
}

// listSleep pops all jobs, puts back those not yet due, and sleeps a second after each round.
func listSleep() peer.Entry {
	work := func(_ context.Context, p *pattern, handlers int, call peer.Call) error {
		jobs := p.workers.pool(handlers, call)
		p.workers.every(time.Second, func(ctx context.Context) error { return p.round(ctx, jobs) })
		return nil
	}
	return pattern{put: pushAll, work: work}.entry("list-sleep", "list, put back until due, sleep 1 s",
		"one consumer; a round pops the whole list, so each round costs two commands for every pending job",
		peer.Traits{Crash: "popped jobs, not yet handled", Race: "safe", Ladder: "by hand", Cancel: "LREM, O(n)"})
}

func (p *pattern) round(ctx context.Context, jobs chan<- string) error {
	n, err := p.rdb.LLen(ctx, readyKey).Result()
	if err != nil {
		return fmt.Errorf("measure the list: %w", err)
	}

	for range n {
		s, err := p.rdb.RPop(ctx, readyKey).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("pop: %w", err)
		}

		due, id, err := readEntry(s)
		if err != nil {
			return err
		}

		if time.Now().Before(due) {
			if err := p.rdb.LPush(ctx, readyKey, s).Err(); err != nil {
				return fmt.Errorf("put back: %w", err)
			}
			continue
		}

		if err := send(ctx, jobs, id); err != nil {
			return err
		}
	}

	return nil
}

// listBlock pops a job with BRPOP and sleeps until the job is due.
func listBlock() peer.Entry {
	work := func(_ context.Context, p *pattern, handlers int, call peer.Call) error {
		p.popEach(handlers, func(ctx context.Context, s string) error {
			due, id, err := readEntry(s)
			if err != nil {
				return err
			}
			if err := peer.Pause(ctx, time.Until(due)); err != nil {
				return err
			}

			return call(ctx, peer.Job{ID: id})
		})
		return nil
	}
	e := pattern{put: pushAll, work: work}.entry("list-blpop", "list + BLPOP, the consumer sleeps until due",
		"each handler pops one job and sleeps; right only where all delays are the same, because a later job holds up those behind it",
		peer.Traits{Crash: "popped jobs, not yet due", Race: "safe", Ladder: "by hand", Cancel: "LREM, O(n), until popped"})
	e.Info.NoWarm = true
	return e
}
