package intake

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
)

//go:embed lua/strays.lua
var straysSource string

var straysScript = wire.NewScript("strays", store.WithParts(straysSource), false)

// strayBatch is the number of notices that one call of Strays checks.
const strayBatch = 500

// Strays returns pending notices of one partition whose timers differ from the shadow. It checks a
// page per call: pass the returned cursor, "0" at first, until it is "0" again.
func (s Redis) Strays(ctx context.Context, p keys.Partition, cursor string) (ks []string, next string, err error) {
	_, ks, next, err = s.strays(ctx, p, "a", cursor)
	return ks, next, err
}

// StraysDue is Strays for notices that are due within a time, at most one page. It also returns the
// time until the first later notice is due; 0 if none is pending.
func (s Redis) StraysDue(ctx context.Context, p keys.Partition, within time.Duration) (ks []string, next time.Duration, err error) {
	now, ks, score, err := s.strays(ctx, p, "d", strconv.FormatInt(within.Milliseconds(), 10))
	if err != nil || score == "" {
		return ks, 0, err
	}

	due, _ := strconv.ParseFloat(score, 64)
	return ks, time.UnixMilli(int64(due)).Sub(now), nil
}

func (s Redis) strays(ctx context.Context, p keys.Partition, mode, arg string) (now time.Time, ks []string, next string, err error) {
	v, err := s.Layout.Parts(ctx, straysScript, 0, []string{s.Space().Shadow(p)}, []any{mode, arg, strayBatch})
	if err != nil {
		return now, nil, "", err
	}
	if len(v) < 2 {
		return now, nil, "", wire.BadReply("strays", "%d answers", len(v))
	}

	next, _ = v[1].(string)
	for _, x := range v[2:] {
		k, _ := x.(string)
		ks = append(ks, k)
	}

	return wire.Micros(v[0]), ks, next, nil
}

// Evicts reports whether Redis may evict timers, or does not allow the question.
func (s Redis) Evicts(ctx context.Context) (bool, error) {
	info, err := s.Wire().AnyNode(ctx).Info(ctx, "memory").Result()
	if redis.IsPermissionError(err) || redis.HasErrorPrefix(err, "ERR") {
		return true, nil
	}
	if err != nil {
		return true, s.Wire().Fail("info", err)
	}

	limited, policy := false, ""
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "maxmemory:"); ok {
			limited = strings.TrimSpace(v) != "0"
		}
		if v, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			policy = strings.TrimSpace(v)
		}
	}

	return limited && policy != "noeviction", nil
}
