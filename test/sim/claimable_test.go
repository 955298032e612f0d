package sim

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// claimable counts, for each key, the shadows of a server that contain the key, under any
// prefix and tag.
var claimable = redis.NewScript(`
local reply = {}
local shadows = redis.call('KEYS', '*:shadow:*')
for i = 1, #ARGV do
  reply[i] = 0
  for _, name in ipairs(shadows) do
    if redis.call('ZSCORE', name, ARGV[i]) then reply[i] = reply[i] + 1 end
  end
end
return reply`)

// claimableIn returns, for each key, the number of places of the servers where the key is
// claimable. The number is at most one, unless a node of a cluster has lost writes.
func claimableIn(ctx context.Context, ks []string, servers ...redis.Scripter) ([]int, error) {
	args := make([]any, len(ks))
	for i, k := range ks {
		args[i] = k
	}
	counts := make([]int, len(ks))
	for _, c := range servers {
		some, err := claimable.Run(ctx, c, nil, args...).Int64Slice()
		if err != nil {
			return nil, err
		}
		for i, n := range some {
			counts[i] += int(n)
		}
	}
	return counts, nil
}

// checkClaimable fails if a key is claimable in two places. There is no exception, because
// in these worlds all of Redis loses writes at once.
func (w *world) checkClaimable() {
	var ks []string
	for k := range w.notes {
		ks = append(ks, w.key(k))
	}
	counts, err := claimableIn(w.ctx, ks, w.plain)
	if err != nil {
		w.t.Fatalf("look for claimable notices: %v", err)
	}
	for k, n := range counts {
		if n > 1 {
			w.t.Fatalf("key %d is claimable in %d places", k, n)
		}
	}
}
