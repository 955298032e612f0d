// Package store speaks to Redis: the connection, the scripts in lua/, and one
// Go function for each script. Nothing else in this module writes to Redis.
//
// # What holds
//
// The shadow zset is the truth about what is pending. Each script changes
// record, shadow, claim and timer of a notice together, in one slot, with the
// time taken from Redis; so there is no moment at which a crash leaves half a
// notice. In a cluster the timer lies in another slot and is set by a second
// command: losing it costs lateness (the grace), never the notice.
//
// A score in the shadow is a Unix time in ms plus a fraction that says what it
// stands for:
//
//	.0          scheduled, with a timer
//	.5          scheduled without a timer: due at once
//	c/1024      claimed until then, c-1 claims having lapsed before (c < 500)
//
// In the settled zset .0 is delivered and .5 is cancelled.
//
// # What may be lost or doubled
//
// Nothing that a call acknowledged is lost while Redis keeps its data. A Redis
// that forgets its last second (appendfsync everysec, failover) forgets the
// notices scheduled in it, and may hand out again what was settled in it.
package store

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// Options of a Store.
type Options struct {
	Client redis.UniversalClient
	Space  keys.Space
	// Cluster: timers are set by a second command.
	Cluster bool
	// Retention is how long settled notices stay readable, Retain how many a
	// route and shard. Zero Retention keeps none.
	Retention time.Duration
	Retain    int
	// OnError, if not nil, hears of each failed operation.
	OnError func(op string)
}

// Store is safe for concurrent use.
type Store struct {
	o        Options
	c        redis.UniversalClient
	space    keys.Space
	timers   string // "1" = scripts set timers
	keep     string // "1" = settled notices are kept
	allowOOM atomic.Bool
}

// New makes a Store. It does not speak to Redis.
func New(o Options) *Store {
	s := &Store{o: o, c: o.Client, space: o.Space, timers: "1", keep: "1"}
	if o.Cluster {
		s.timers = "0"
	}
	if o.Retention <= 0 {
		s.keep = "0"
	}
	return s
}

// Space names the Redis keys.
func (s *Store) Space() keys.Space { return s.space }

// Client is the connection, for what subscribes and for tests.
func (s *Store) Client() redis.UniversalClient { return s.c }

// Cluster tells whether Redis is a cluster.
func (s *Store) Cluster() bool { return s.o.Cluster }

// script is one Lua file in two forms: as it is, and with the header by which
// Redis 7 lets it run although maxmemory is reached. What ends a notice's way
// frees memory in the end; only new notices must be refused.
type script struct {
	op      string
	plain   *redis.Script
	always  *redis.Script
	mayGrow bool
}

func newScript(op, src string, mayGrow bool) *script {
	return &script{op: op, plain: redis.NewScript(src), always: redis.NewScript("#!lua flags=allow-oom\n" + src), mayGrow: mayGrow}
}

func (s *Store) run(ctx context.Context, sc *script, keys []string, args []any) ([]any, error) {
	form := sc.plain
	if !sc.mayGrow && s.allowOOM.Load() {
		form = sc.always
	}
	v, err := form.Run(ctx, s.c, keys, args...).Slice()
	if err != nil {
		return nil, s.fail(sc.op, err)
	}
	return v, nil
}

// Detect learns what the server can do. It is called after each connect.
func (s *Store) Detect(ctx context.Context) error {
	info, err := s.c.Info(ctx, "server").Result()
	var answer redis.Error
	if err != nil && (!errors.As(err, &answer) || unavailable(err)) {
		return s.fail("info", err)
	}
	// A server that refuses INFO is taken for an old one.
	major := 0
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			_, _ = fmt.Sscanf(v, "%d.", &major)
		}
	}
	s.allowOOM.Store(major >= 7)
	return nil
}

// fail counts an error and says what kind it is.
func (s *Store) fail(op string, err error) error {
	if s.o.OnError != nil && !errors.Is(err, context.Canceled) {
		s.o.OnError(op)
	}
	return Wrap(op, err)
}

// Wrap names the step and sorts err: ErrFull, ErrUnavailable, or as it is.
func Wrap(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case full(err):
		return fmt.Errorf("%s: %w: %w", op, ErrFull, err)
	case unavailable(err):
		return fmt.Errorf("%s: %w: %w", op, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

func full(err error) bool { return strings.Contains(err.Error(), "OOM command not allowed") }

// unavailable tells whether trying again later can help.
func unavailable(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) {
		return true
	}
	text := err.Error()
	for _, mark := range []string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "BUSY ", "UNBLOCKED",
		"NOAUTH", "WRONGPASS", "NOPERM", "connection pool", "all sentinels specified", "cluster has no nodes", "MOVED", "ASK "} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}
