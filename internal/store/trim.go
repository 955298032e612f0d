package store

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/trim.lua
var trimSource string

//go:embed lua/bury.lua
var burySource string

var (
	trimScript = wire.NewScript("trim", trimSource, false)
	buryScript = wire.NewScript("bury", burySource, false)
)

// MaxTrims is the maximum number of prefixes in one call of Trim.
const MaxTrims = 64

// maxTrimBytes is the maximum size of the records that one call of Trim reads.
const maxTrimBytes = 1 << 20

// Trim names a prefix whose settled notices are trimmed: those that are too old, and those that are too
// many and older than Young.
type Trim struct {
	Prefix string
	Young  time.Duration
}

// Trim deletes at most n settled (delivered or cancelled) notices of one shard: those settled longer ago than the
// retention time, and the oldest of each prefix that has too many. list names the prefixes, at most [MaxTrims]. more
// reports whether further notices may remain to be deleted. If one prefix cannot be read, Trim continues with the
// others and returns an error.
func (s *Store) Trim(ctx context.Context, shard int, list []Trim, n int) (trimmed int, more bool, err error) {
	var ks []string
	var routes []any
	for _, t := range list {
		p := keys.Partition{Prefix: t.Prefix, Shard: shard}
		ks = append(ks, s.space.Settled(p), s.space.Records(p))
		routes = append(routes, t.Prefix, t.Young.Milliseconds())
	}

	v, _, err := s.w.Replies(shard).Reply(maxTrimBytes, func(bytes int) ([]any, error) {
		args := []any{s.o.Retention.Milliseconds(), s.retain(), n, s.RepeatWindow().Milliseconds(), bytes}
		return s.Layout.Parts(ctx, trimScript, 3, ks, append(args, routes...))
	})
	if err != nil {
		return 0, false, err
	}

	old, _ := v[0].(int64)
	trimmed, more = int(old), v[2] == int64(1)
	if text, _ := v[1].(string); text != "" {
		err = s.w.Fail(trimScript.Op, wire.Refusal(text))
	}

	for i, buryArgs := range s.buryArgs(list, v[3:]) {
		buried, failed := s.bury(ctx, keys.Partition{Prefix: list[i].Prefix, Shard: shard}, buryArgs)
		if failed != nil {
			return trimmed, false, failed
		}

		trimmed += buried
	}

	return trimmed, more && trimmed > 0, err
}

// buryArgs returns the arguments of bury.lua for the notices that trim.lua returned, by index in
// list.
func (s *Store) buryArgs(list []Trim, v []any) map[int][]any {
	by := map[int][]any{}
	for ; len(v) >= 3; v = v[3:] {
		number, _ := v[0].(int64)
		key, _ := v[1].(string)
		record, _ := v[2].(string)
		i := int(number) - 1
		if i < 0 || i >= len(list) {
			continue
		}

		n, err := notice.Decode(key, list[i].Prefix, record)
		if err != nil {
			n = notice.Unread(key, list[i].Prefix, record)
		}

		sum := sha1.Sum([]byte(record))
		by[i] = append(by[i], key, hex.EncodeToString(sum[:]), keys.AppendDigest(nil, key), n.Tombstone().Append(nil))
	}

	return by
}

// bury trims notices of one partition and writes their tombstones.
func (s *Store) bury(ctx context.Context, p keys.Partition, buryArgs []any) (int, error) {
	most := s.o.RepeatBytes / int64(s.space.Now().Shards)
	args := append([]any{p.Prefix, max(s.RepeatWindow().Milliseconds()/bucketsInWindow, 1), most}, buryArgs...)
	n, err := s.Layout.Do(ctx, buryScript, []string{s.space.Settled(p), s.space.Records(p)}, args).Int64Slice()
	if err != nil {
		return 0, s.w.Fail(buryScript.Op, err)
	}
	if len(n) != 2 {
		return 0, s.w.Fail(buryScript.Op, fmt.Errorf("a reply of %d parts", len(n)))
	}

	return int(n[0]), nil
}

// retain returns the maximum number of settled notices per prefix and shard. It is the setting Retain, except for one
// retention time after the number of shards was reduced.
func (s *Store) retain() int {
	now := s.space.Now()
	// A shard then has the settled notices of several old ones, so the maximum is multiplied by their number.
	if at, from := s.Layout.cameFrom(); from > 0 && s.w.Clock.Now().Sub(at) <= s.o.Retention {
		return s.o.Retain * max(1, (from+now.Shards-1)/now.Shards)
	}
	if len(now.Replaced) == 0 || s.w.Clock.Now().Sub(s.Layout.resharded()) > s.o.Retention {
		return s.o.Retain
	}

	before := now.Replaced[len(now.Replaced)-1]
	return s.o.Retain * max(1, (before+now.Shards-1)/now.Shards)
}
