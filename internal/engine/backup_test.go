package engine

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// saved is a backup of the keys of a test.
type saved struct {
	key, dump string
	expires   int64 // Unix ms, as a backup of Redis keeps it; 0 = never
}

func backUp(t *testing.T, c *redis.Client) (list []saved) {
	t.Helper()
	ks, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range ks {
		dump, derr := c.Dump(t.Context(), k).Result()
		at, terr := c.PExpireTime(t.Context(), k).Result()
		if errors.Is(derr, redis.Nil) {
			continue // expired since
		}
		if err := errors.Join(derr, terr); err != nil {
			t.Fatal(err)
		}
		list = append(list, saved{k, dump, max(at, 0).Milliseconds()})
	}
	return list
}

func restore(t *testing.T, c *redis.Client, list []saved) {
	t.Helper()
	if err := c.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if err := c.Do(t.Context(), "RESTORE", s.key, s.expires, s.dump, "ABSTTL").Err(); err != nil {
			t.Fatal(err)
		}
	}
}
