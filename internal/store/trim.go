package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"notifier/internal/keys"
)

//go:embed lua/trim.lua
var trimSource string

var trimScript = newScript("trim", trimSource, false)

// MaxTrims is of how many prefixes one Trim forgets.
const MaxTrims = 64

// Trim is a prefix whose settled notices are forgotten when they are too old or,
// if they are older than Young, too many.
type Trim struct {
	Prefix string
	Young  time.Duration
}

// Trim forgets at most n settled notices in all, of up to MaxTrims prefixes of one
// shard, and says how many it forgot. A prefix that cannot be read is an error,
// and does not keep the others from being trimmed.
func (s *Store) Trim(ctx context.Context, shard int, list []Trim, n int) (int, error) {
	ks, args := make([]string, 0, 2*len(list)), []any{s.o.Retention.Milliseconds(), s.retain(), n}
	for _, t := range list {
		p := keys.Partition{Prefix: t.Prefix, Shard: shard}
		ks = append(ks, s.space.Settled(p), s.space.Records(p))
		args = append(args, t.Young.Milliseconds())
	}
	v, err := s.parts(ctx, trimScript, 1, ks, args)
	if err != nil {
		return 0, err
	}
	forgotten, _ := v[0].(int64)
	if len(v) > 1 {
		text, _ := v[1].(string)
		return int(forgotten), s.fail(trimScript.op, refusal(text))
	}
	return int(forgotten), nil
}

// retain is how many settled notices of a prefix a shard keeps. Where there are fewer
// shards than before, each has got those of several, and none is to be forgotten for
// that: until what was settled before the change is too old, there may be as many times
// more. The same holds where they have come from another Redis.
func (s *Store) retain() int {
	now := s.space.Now()
	if at, from := s.cameFrom(); from > 0 && time.Since(at) <= s.o.Retention {
		return s.o.Retain * max(1, (from+now.Shards-1)/now.Shards)
	}
	if len(now.Replaced) == 0 || time.Since(time.Unix(s.since.Load(), 0)) > s.o.Retention {
		return s.o.Retain
	}
	before := now.Replaced[len(now.Replaced)-1]
	return s.o.Retain * max(1, (before+now.Shards-1)/now.Shards)
}

// Came is when the last migration to this Redis began; zero if there was none.
func (s *Store) Came() time.Time {
	at, _ := s.cameFrom()
	return at
}

// cameFrom is the same, with the number of shards of the other side.
func (s *Store) cameFrom() (at time.Time, shards int) {
	text, _ := s.came.Load().(string)
	var ms int64
	if _, err := fmt.Sscan(text, &ms, &shards); err != nil {
		return time.Time{}, 0
	}
	return time.UnixMilli(ms), shards
}
