package testkit

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// Client returns a client of the server at a URL, also for another user than that of [Redis.Client]. The test closes it.
func Client(t testing.TB, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}

	o.DisableIdentity = true // as in connect
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
