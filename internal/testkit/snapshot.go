package testkit

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Snapshot saves all keys that match a pattern, and returns the function lose, which restores that state and deletes
// the matching keys that were added since. A test calls lose to simulate a Redis that restarts without its last writes.
// To simulate one node of a cluster, use a pattern that matches only keys in the node's slots.
func (s *Redis) Snapshot(t testing.TB, match string) (lose func()) {
	t.Helper()
	c := s.Client()
	list := func() []string {
		ks, err := c.Keys(t.Context(), match).Result()
		if err != nil {
			t.Fatal(err)
		}

		return ks
	}
	type value struct {
		text    string
		expires time.Duration
	}
	was := map[string]value{}
	for _, k := range list() {
		text, err := c.Dump(t.Context(), k).Result()
		if err != nil {
			t.Fatal(err)
		}

		was[k] = value{text, c.PExpireTime(t.Context(), k).Val()}
	}

	return func() {
		t.Helper()
		_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, k := range list() {
				p.Del(t.Context(), k)
			}

			for k, x := range was {
				p.Restore(t.Context(), k, 0, x.text)
				if x.expires > 0 {
					p.PExpireAt(t.Context(), k, time.UnixMilli(x.expires.Milliseconds()))
				}
			}

			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
