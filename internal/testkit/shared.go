package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// EnvURL is the variable with the URL of a running Redis for tests. All its databases except 0 are flushed.
const EnvURL = "NOTIFIER_TEST_REDIS_URL"

const (
	// ownDatabases is the number of databases of a server started here: a test uses one per engine.
	ownDatabases = 64
	// held is how long a database stays reserved after its test binary died.
	held = 15 * time.Minute
	// waitTimeout is how long a test waits for a free database.
	waitTimeout = 5 * time.Minute
)

// shared is the server of this test binary. It is a package variable because the tests of a package share
// nothing else.
var shared struct {
	sync.Mutex
	options   *redis.Options
	backend   backend
	databases int
}

// SharedRedis returns an empty database of the server that all tests of this binary share, with a unique namespace for keys.
// The server sends expired events. Tests must not change its settings with CONFIG SET: a test that has to uses [StartRedis].
func SharedRedis(t testing.TB) *Redis {
	t.Helper()
	o, err := sharedOptions(t)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}

	db, err := take(t, o)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}

	own := *o
	own.DB = db
	s := &Redis{t: t, addr: o.Addr, url: urlOf(&own), db: db, namespace: "t" + strings.ToLower(rand.Text()[:10])}
	s.connect(&own)
	if err := s.client.FlushDB(context.Background()).Err(); err != nil {
		t.Fatalf("testkit: empty database %d: %v", db, err)
	}

	return s
}

// sharedOptions finds or starts the shared server, once.
func sharedOptions(t testing.TB) (*redis.Options, error) {
	shared.Lock()
	defer shared.Unlock()

	if shared.options != nil {
		return shared.options, nil
	}

	o, err := find(t)
	if err != nil {
		return nil, err
	}

	o.DisableIdentity = true
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()

	if err := await(c); err != nil {
		return nil, err
	}
	if err := addFlags(c); err != nil {
		return nil, err
	}

	have, err := c.ConfigGet(context.Background(), "databases").Result()
	if err != nil {
		return nil, fmt.Errorf("read databases: %w", err)
	}
	if shared.databases, err = strconv.Atoi(have["databases"]); err != nil {
		return nil, fmt.Errorf("read databases: %w", err)
	}

	shared.options = o
	return o, nil
}

// find tries the servers in the order of the package comment.
func find(t testing.TB) (*redis.Options, error) {
	if u := os.Getenv(EnvURL); u != "" {
		o, err := redis.ParseURL(u)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read; want redis://host:port", EnvURL)
		}

		return o, nil
	}

	own := &settings{lines: []string{"databases " + strconv.Itoa(ownDatabases)}}
	c, derr := (*container)(nil), errors.New(EnvServer+" is set")
	if os.Getenv(EnvServer) == "" {
		c, derr = newContainer(own)
	}

	if derr == nil {
		shared.backend = c
		t.Logf("testkit: a container of %s:%s on %s", c.res.Container.Config.Image, c.id()[:12], c.addr)
		return &redis.Options{Addr: c.addr}, nil
	}

	// Not t.TempDir, because the server outlives this test.
	dir, err := os.MkdirTemp("", "testkit")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}

	p, perr := newProcess(dir, own)
	// The server keeps its directory open and saves nothing. Without the directory's name, no file remains.
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("remove the directory: %w", err)
	}

	if perr == nil {
		shared.backend = p
		t.Logf("testkit: %s on %s, because of docker: %v", p.path, p.address(), derr)
		return &redis.Options{Addr: p.address()}, nil
	}

	return nil, fmt.Errorf("no Redis to test with; install the package redis-server (`make deps`), or start Docker and run "+
		"scripts/test-image.sh, or set %s\n  docker: %w\n  redis-server: %w", EnvURL, derr, perr)
}

// addFlags adds Ex to notify-keyspace-events and keeps the other flags.
func addFlags(c *redis.Client) error {
	ctx := context.Background()
	const name = "notify-keyspace-events"
	have, err := c.ConfigGet(ctx, name).Result()
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}

	flags := have[name]
	for _, need := range []string{"E", "x"} {
		if !strings.Contains(flags, need) && !(need == "x" && strings.Contains(flags, "A")) {
			flags += need
		}
	}

	if err := c.ConfigSet(ctx, name, flags).Err(); err != nil {
		return fmt.Errorf("set %s to %q: %w", name, flags, err)
	}

	return nil
}

// take reserves one database until the test ends. The reservation is a key of database 0, because other test
// binaries may use the same server.
func take(t testing.TB, o *redis.Options) (int, error) {
	c := redis.NewClient(o)
	token := rand.Text()
	ctx := context.Background()
	deadline := time.Now().Add(waitTimeout)

	for {
		for db := 1; db < shared.databases; db++ {
			key := "testkit:" + strconv.Itoa(db)
			err := c.SetArgs(ctx, key, token, redis.SetArgs{Mode: "NX", TTL: held}).Err()
			if errors.Is(err, redis.Nil) {
				continue
			}

			if err != nil {
				_ = c.Close()
				return 0, fmt.Errorf("take a database: %w", err)
			}

			t.Cleanup(func() {
				if c.Get(ctx, key).Val() == token {
					c.Del(ctx, key)
				}
				_ = c.Close()
			})
			return db, nil
		}

		if time.Now().After(deadline) {
			_ = c.Close()
			return 0, fmt.Errorf("all %d databases of %s were in use for %s", shared.databases-1, o.Addr, waitTimeout)
		}

		pause()
	}
}

// urlOf returns options in the form that redis.ParseURL parses.
func urlOf(o *redis.Options) string {
	scheme, auth := "redis", ""
	if o.TLSConfig != nil {
		scheme = "rediss"
	}

	if o.Password != "" {
		auth = o.Username + ":" + o.Password + "@"
	}

	if o.Network == "unix" {
		return "unix://" + auth + o.Addr + "?db=" + strconv.Itoa(o.DB)
	}

	return scheme + "://" + auth + o.Addr + "/" + strconv.Itoa(o.DB)
}
