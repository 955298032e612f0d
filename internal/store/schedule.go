package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
)

//go:embed lua/schedule.lua
var scheduleSource string

var scheduleScript = newScript("schedule", scheduleSource, true)

// Schedule stores notices of one route (prefix) and shard; reqs and the
// replies match by index. The error is of the whole call: nothing was written,
// or, when the connection broke amid it, it is unknown, and the call may be
// repeated. Requests must be checked before: see Content.Check.
func (s *Store) Schedule(ctx context.Context, prefix string, shard int, reqs []Request) ([]Reply, error) {
	a := newArgs(s.space.ClaimPrefix(shard), s.space.Wake(), wakeInfo(shard, prefix), s.timers)
	defer a.free()
	for i := range reqs {
		r := &reqs[i]
		a.text(r.Key)
		a.buf = append(a.buf, r.OnDuplicate.mode())
		a.buf = appendWhen(a.buf, r.Due, r.Delay)
		a.end()
		n := notice.Notice{Content: r.Content}
		a.buf = n.AppendTail(a.buf)
		a.end()
	}
	v, err := s.run(ctx, scheduleScript, s.four(shard, prefix), a.list())
	if err != nil {
		return nil, err
	}
	if len(v) != len(reqs)+1 {
		return nil, fmt.Errorf("schedule: %d answers to %d requests", len(v)-1, len(reqs))
	}
	now := micros(v[0])
	replies := make([]Reply, len(reqs))
	for i := range reqs {
		replies[i] = s.scheduled(&reqs[i], prefix, v[i+1], now)
	}
	if s.o.Cluster {
		var t []timer
		for i := range replies {
			if replies[i].Created {
				t = append(t, timer{reqs[i].Key, replies[i].Due.UnixMilli(), 1})
			}
		}
		s.arm(ctx, t, now)
	}
	return replies, nil
}

func (s *Store) scheduled(r *Request, prefix string, v any, now time.Time) Reply {
	created := func(due int64) Reply {
		n := &notice.Notice{Key: r.Key, Route: prefix, Made: now.Truncate(time.Millisecond), Due: time.UnixMilli(due).UTC(), Content: r.Content}
		return Reply{Found: Found{Notice: n, State: notice.Scheduled}, Created: true}
	}
	switch v := v.(type) {
	case int64:
		return created(v)
	case string:
		due, _ := strconv.ParseInt(v, 10, 64)
		reply := created(due)
		reply.Replaced = true
		return reply
	}
	f, err := found(r.Key, prefix, v)
	if err != nil {
		return Reply{Err: err}
	}
	reply := Reply{Found: f}
	if r.OnDuplicate != Keep {
		reply.Differs = r.Content.Diff(&f.Content)
	}
	return reply
}

// mode is the duplicate's word in schedule.lua.
func (d Duplicate) mode() byte {
	switch d {
	case Keep:
		return 'k'
	case Replace:
		return 'p'
	}
	return 'r'
}

func appendWhen(b []byte, due time.Time, delay time.Duration) []byte {
	if !due.IsZero() {
		return strconv.AppendInt(append(b, '='), due.UnixMilli(), 10)
	}
	// Rounded up, so that a delay is never short.
	return strconv.AppendInt(append(b, '+'), (delay.Nanoseconds()+999_999)/1_000_000, 10)
}

func wakeInfo(shard int, prefix string) string { return strconv.Itoa(shard) + " " + prefix }

// four are the keys that most scripts begin with.
func (s *Store) four(shard int, prefix string) []string {
	return []string{s.space.Shadow(shard, prefix), s.space.Records(shard, prefix), s.space.Dead(shard, prefix), s.space.Settled(shard, prefix)}
}

type timer struct {
	key     string
	due     int64 // Unix ms
	attempt int
}

// arm sets timers in a cluster, where they lie in slots of their own. A timer
// that could not be set makes its notice late by the grace.
func (s *Store) arm(ctx context.Context, timers []timer, now time.Time) {
	if len(timers) == 0 {
		return
	}
	_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, t := range timers {
			if t.due > now.UnixMilli() {
				p.Do(ctx, "SET", t.key, t.attempt, "PXAT", t.due-1)
			}
		}
		return nil
	})
	if err != nil {
		_ = s.fail("arm", err)
	}
}

func micros(v any) time.Time {
	us, _ := v.(int64)
	return time.UnixMicro(us).UTC()
}
