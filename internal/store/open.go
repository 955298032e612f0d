package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Conn is a connection to Redis in one of the three modes.
type Conn struct {
	redis.UniversalClient
	DB int
	// Masters calls f for each master of a cluster; nil outside a cluster.
	Masters func(ctx context.Context, f func(ctx context.Context, c *redis.Client) error) error
}

// How long Redis may take: an answer that takes longer is a failure, and comes
// again. go-redis repeats nothing by itself, because a claim or a push that was
// made twice is not the same as once; those who call know what to repeat.
const (
	dialTimeout = 2 * time.Second
	readTimeout = 3 * time.Second
	poolSize    = 32
)

// Open reads the URL (redis://, rediss://, unix://) and makes the connection of
// a mode: standalone, sentinel (…?master_name=m&addr=host:port) or cluster
// (…?addr=host:port). It does not speak to Redis yet. Its errors do not repeat
// the URL, which may hold a password.
func Open(mode, url string) (*Conn, error) {
	off := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch mode {
	case "", "standalone":
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, badURL(err, url)
		}
		o.MaxRetries, o.DialTimeout, o.ReadTimeout, o.WriteTimeout = -1, dialTimeout, readTimeout, readTimeout
		o.ContextTimeoutEnabled, o.PoolSize, o.MaintNotificationsConfig = true, poolSize, off
		o.DisableIdentity = true
		return &Conn{UniversalClient: redis.NewClient(o), DB: o.DB}, nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(url)
		if err != nil {
			return nil, badURL(err, url)
		}
		if o.MasterName == "" {
			return nil, fmt.Errorf("the URL names no master; add ?master_name=<name>, and &addr=host:port for each further sentinel")
		}
		o.MaxRetries, o.DialTimeout, o.ReadTimeout, o.WriteTimeout = -1, dialTimeout, readTimeout, readTimeout
		o.ContextTimeoutEnabled, o.PoolSize, o.DisableIdentity = true, poolSize, true
		return &Conn{UniversalClient: redis.NewFailoverClient(o), DB: o.DB}, nil
	case "cluster":
		o, err := redis.ParseClusterURL(url)
		if err != nil {
			return nil, badURL(err, url)
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, readTimeout, readTimeout
		o.ContextTimeoutEnabled, o.PoolSize, o.MaintNotificationsConfig, o.DisableIdentity = true, poolSize, off, true
		// Redirections are the cluster's way to say where a slot is.
		o.MaxRedirects = 5
		c := redis.NewClusterClient(o)
		return &Conn{UniversalClient: c, Masters: c.ForEachMaster}, nil
	}
	return nil, fmt.Errorf("mode %q; want standalone, sentinel or cluster", mode)
}

func badURL(err error, url string) error {
	text := err.Error()
	if strings.Contains(text, url) || strings.Contains(url, "@") {
		text = "it cannot be read"
	}
	return fmt.Errorf("not a Redis URL: %s; want redis://[user:password@]host:port/db, rediss://… or unix://path", text)
}
