package fleet

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"notifier/internal/wire"
)

//go:embed lua/serve.lua
var serveSource string

var serveScript = wire.NewScript("serve", serveSource, false)

// Serve records the prefixes that an instance has routes for. It returns, by instance, the prefixes
// that were recorded within the time stale.
func (s *Store) Serve(ctx context.Context, instance string, prefixes []string, stale time.Duration) (map[string][]string, error) {
	args := []any{instance, stale.Milliseconds()}
	for _, p := range prefixes {
		args = append(args, p)
	}

	v, err := s.l.Parts(ctx, serveScript, 0, []string{s.w.Space.Serving()}, args)
	if err != nil {
		return nil, err
	}

	out := map[string][]string{}
	for _, x := range v {
		text, _ := x.(string)
		if prefix, who, ok := strings.Cut(text, " "); ok {
			out[who] = append(out[who], prefix)
		}
	}

	return out, nil
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
