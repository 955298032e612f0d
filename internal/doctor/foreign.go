package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// maxForeign is how many pending notices of each route and shard are checked for foreign keys.
const maxForeign = 100

// foreignKeys reports pending notices without a timer whose name is a key of another program. Routes with adoption are not
// checked: there such a key is a producer's timer, which is being adopted.
func (r *run) foreignKeys(ctx context.Context) {
	found, example := 0, ""
	for _, x := range r.table.All() {
		if x.Adopt {
			continue
		}

		for place := range r.space.Places() {
			some, err := r.conn.ZRangeByScoreWithScores(ctx, r.space.Shadow(keys.Partition{Prefix: x.Prefix, Shard: place}),
				&redis.ZRangeBy{Min: fmt.Sprintf("(%d", r.Now().Add(time.Second).UnixMilli()), Max: "+inf", Count: maxForeign}).Result()
			if err != nil {
				return // the check of the rights names the cause
			}

			for _, z := range some {
				key, _ := z.Member.(string)
				if store.HasTimer(z.Score) || store.IsClaim(z.Score) || !r.isForeign(ctx, key) {
					continue
				}

				found, example = found+1, key
			}
		}
	}

	if found == 0 {
		return
	}

	r.add(Finding{Check: "keys", Severity: Warning,
		Message: fmt.Sprintf("%s without a timer, because other programs have keys of their names, for example %s; sweeps claim them",
			notice.Count(found, "notice"), example),
		Remedy: "give the other program's keys other names, or its notices another app"})
}

// isForeign reports whether a notice without a timer has a key of another program. In a cluster a number with an expiry may be
// a timer that is set or deleted late.
func (r *run) isForeign(ctx context.Context, key string) bool {
	if r.conn.Masters == nil {
		return r.conn.Exists(ctx, key).Val() != 0
	}

	value, err := r.conn.Get(ctx, key).Result()
	if err != nil {
		return !errors.Is(err, redis.Nil) && r.conn.Exists(ctx, key).Val() != 0 // of another type
	}

	_, err = strconv.ParseUint(value, 10, 64)
	return err != nil || r.conn.PTTL(ctx, key).Val() < 0
}
