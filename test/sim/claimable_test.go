package sim

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// claimable counts, for each key, the shadows of a server that have it, under whatever
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

// claimableIn is in how many places of some servers each key can be claimed. In every
// world that is one at most, unless a node of a cluster has lost writes.
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

// lookClaimable: no key is claimable in two places. Here Redis forgets as a whole, so there
// is no exception.
func (w *world) lookClaimable() {
	var ks []string
	for k := range w.notes {
		ks = append(ks, key(k))
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
