package fleet

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

//go:embed lua/serve.lua
var serveSource string

var serveScript = wire.NewScript("serve", serveSource, false)

// StaleAfter is how long an instance counts as serving after it has recorded its prefixes. Instances do so every 5 to 7 s.
const StaleAfter = 15 * time.Second

// WorkerMark is the end of an entry that says that an instance has a handler for a prefix in its program.
const WorkerMark = "=worker"

// OtherTarget reports whether an instance serves a prefix with another target than a handler in its program. served are
// the entries of instances, as Serving returns them.
func OtherTarget(served map[string][]string, prefix string) bool {
	for _, list := range served {
		if slices.Contains(list, prefix) && !slices.Contains(list, prefix+WorkerMark) {
			return true
		}
	}
	return false
}

// Workers counts, for each of some recorded prefixes, the instances with a handler in their program, and returns when one
// last had it.
func (s *Store) Workers(ctx context.Context, recorded []string) ([]Recorded, error) {
	if len(recorded) == 0 {
		return nil, nil
	}

	served, err := s.Serving(ctx, StaleAfter)
	if err != nil {
		return nil, err
	}

	handled, err := s.w.Redis.HMGet(ctx, s.w.Space.Handled(), recorded...).Result()
	if err != nil {
		return nil, s.w.Fail("serve", err)
	}

	list := make([]Recorded, len(recorded))
	for i, p := range recorded {
		list[i].Prefix = p
		if text, ok := handled[i].(string); ok {
			if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
				list[i].Handled = time.UnixMilli(ms).UTC()
			}
		}

		for _, entries := range served {
			if slices.Contains(entries, p+WorkerMark) {
				list[i].Workers++
			}
		}
	}

	return list, nil
}

// Serve records the prefixes that an instance has routes for. It returns, by instance, the prefixes
// that were recorded within the time stale.
func (s *Store) Serve(ctx context.Context, instance string, prefixes []string, stale time.Duration) (map[string][]string, error) {
	args := []any{instance, stale.Milliseconds()}
	for _, p := range prefixes {
		args = append(args, p)
	}

	v, err := s.l.Parts(ctx, serveScript, 0, []string{s.w.Space.Serving(), s.w.Space.Handled()}, args)
	if err != nil {
		return nil, err
	}

	members := make([]string, len(v))
	for i, x := range v {
		members[i], _ = x.(string)
	}

	return byInstance(members), nil
}

// byInstance returns the prefixes of members, by instance.
func byInstance(members []string) map[string][]string {
	out := map[string][]string{}
	for _, m := range members {
		if prefix, who, ok := strings.Cut(m, " "); ok {
			out[who] = append(out[who], prefix)
		}
	}

	return out
}

// Serving returns the same as [Store.Serve], and writes nothing.
func (s *Store) Serving(ctx context.Context, stale time.Duration) (map[string][]string, error) {
	name := s.w.Space.Serving()
	now, err := s.w.Holder(ctx, name).Time(ctx).Result() // in a cluster, another node may be away
	if err != nil {
		return nil, s.w.Fail("serve", err)
	}

	from := strconv.FormatInt(now.Add(-stale).UnixMilli(), 10)
	members, err := s.w.Redis.ZRangeByScore(ctx, name, &redis.ZRangeBy{Min: "(" + from, Max: "+inf"}).Result()
	if err != nil {
		return nil, s.w.Fail("serve", err)
	}

	return byInstance(members), nil
}

// Forget removes the time at which a worker last had a handler for a prefix.
func (s *Store) Forget(ctx context.Context, prefix string) error {
	if err := s.w.Redis.HDel(ctx, s.w.Space.Handled(), prefix).Err(); err != nil {
		return s.w.Fail("serve", err)
	}

	return nil
}

// Unserve removes the prefixes that an instance has recorded with [Store.Serve].
func (s *Store) Unserve(ctx context.Context, instance string, prefixes []string) error {
	members := make([]any, len(prefixes))
	for i, p := range prefixes {
		members[i] = p + " " + instance
	}

	if err := s.w.Redis.ZRem(ctx, s.w.Space.Serving(), members...).Err(); err != nil {
		return s.w.Fail("unserve", err)
	}

	return nil
}
