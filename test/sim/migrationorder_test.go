package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// drawOrder draws the order of the route. In an ordered run all keys are a sequence.
func (w *ferry) drawOrder(t *rapid.T) {
	members := map[order][]string{skip: {prefix}, block: {prefix, prefix + store.Blocks}}
	if w.order = pick(t, "order", []order{unordered, skip, block}); w.order == unordered {
		return
	}
	for _, s := range w.shores {
		w.plainly(s.stores[0].Layout.AddOrdered(w.ctx, members[w.order]))
	}
	w.say("the route is ordered, dead letters: %s", w.order)
}

// key returns the name of a key of this run.
func (w *ferry) key(k int) string { return keyIn(w.order, k) }

// checkSequences checks the sequences in each shard of each side.
func (w *ferry) checkSequences() {
	for _, s := range w.shores {
		now, _, err := store.Discover(w.ctx, s.plain, keys.Space{Namespace: space.Namespace}, false)
		w.plainly(err)
		w.plainly(checkMembers(w.ctx, s.plain, now, w.order))
	}
}

// checkMembers returns an error unless the members of the sequences in each place are the notices there, with the
// dead ones if they hold back their successors.
func checkMembers(ctx context.Context, c *redis.Client, now keys.Space, o order) error {
	if o == unordered {
		return nil
	}
	for place := range now.Places() {
		p := keys.Partition{Prefix: prefix, Shard: place}
		is, err := testkit.ReadSequences(ctx, c, now.Base(place), prefix)
		if err != nil {
			return fmt.Errorf("read the sequences of place %d: %w", place, err)
		}
		want := c.ZRange(ctx, now.Shadow(p), 0, -1).Val()
		if o == block {
			want = append(want, c.ZRange(ctx, now.Dead(p), 0, -1).Val()...)
		}
		var members []string
		for _, m := range is.Members {
			members = append(members, m[strings.LastIndexByte(m, ' ')+1:])
		}
		slices.Sort(want)
		slices.Sort(members)
		if !slices.Equal(members, want) {
			return fmt.Errorf("the sequences in place %d have %q, want %q", place, members, want)
		}
	}
	return nil
}
