package tracing

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

//go:embed lua/open.lua
var openSource string

// The script grows nothing beyond 32 short members, and concerns no notice.
var openScript = wire.NewScript("tap", openSource, false).Anywhere()

// Limits on taps.
const (
	MaxOfClient = 4
	MaxOfAll    = 32
)

// TapsFullError is returned by Hub.Open if too many taps are open.
type TapsFullError struct {
	// Most is the maximum number of taps: of the client, or of all clients if All is set.
	Most int
	All  bool
}

// Error implements error.
func (e *TapsFullError) Error() string {
	if e.All {
		return fmt.Sprintf("%d taps are open, the maximum of all clients together", e.Most)
	}
	return fmt.Sprintf("this client has %d taps open, the maximum; close one", e.Most)
}

// ttl is how long a tap lives in Redis after its instance has renewed it last.
const ttl = 15 * time.Second

// TapStore keeps the open taps in Redis and carries copies between instances. Its methods are
// safe for concurrent use.
type TapStore struct {
	w *wire.Client
	// unsharded: the cluster has no sharded pub/sub, which Redis has since version 7.
	unsharded atomic.Bool
}

// NewTapStore makes the Store of a Redis.
func NewTapStore(w *wire.Client) *TapStore { return &TapStore{w: w} }

// open adds a tap of a client that may have most taps.
func (s *TapStore) open(ctx context.Context, m member, most int) error {
	v, err := s.w.Run(ctx, openScript, []string{s.w.Space.Taps()}, []any{m.String(), m.owner(), ttl.Milliseconds(), most, MaxOfAll})
	switch {
	case err != nil:
		return err
	case len(v) == 1 && v[0] == int64(1):
		return &TapsFullError{Most: most}
	case len(v) == 1 && v[0] == int64(2):
		return &TapsFullError{Most: MaxOfAll, All: true}
	}

	return nil
}

func (s *TapStore) renew(ctx context.Context, m member) error {
	_, err := s.w.Run(ctx, openScript, []string{s.w.Space.Taps()}, []any{m.String(), m.owner(), ttl.Milliseconds(), "", ""})
	return err
}

func (s *TapStore) close(ctx context.Context, m member) error {
	return s.w.At(ctx, s.w.Space.Taps(), func(ctx context.Context) error {
		return s.w.Wrapped("tapend", s.w.Redis.ZRem(ctx, s.w.Space.Taps(), m.String()).Err())
	})
}

// sharded reports whether copies go over sharded pub/sub. In a cluster a plain PUBLISH goes to
// all nodes.
func (s *TapStore) sharded() bool { return s.w.Cluster && !s.unsharded.Load() }

// publish publishes messages in one round trip.
func (s *TapStore) publish(ctx context.Context, list [][]byte) error {
	channel := s.w.Space.TapChannel(s.w.DB)
	sharded := s.sharded()
	_, err := s.w.Holder(ctx, s.w.Space.Taps()).Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, text := range list {
			if sharded {
				p.SPublish(ctx, channel, text)
			} else {
				p.Publish(ctx, channel, text)
			}
		}
		return nil
	})
	if sharded && isUnknown(err) {
		s.unsharded.Store(true)
		return s.publish(ctx, list)
	}

	if err != nil {
		s.w.Reload(ctx)
	}

	return s.w.Wrapped("tapcopy", err)
}

// subscribe subscribes to the channel on a separate connection, and waits for the
// confirmation.
func (s *TapStore) subscribe(ctx context.Context) (wire.Subscription, error) {
	channel := s.w.Space.TapChannel(s.w.DB)
	sharded := s.sharded()
	ps, err := wire.Subscribe(ctx, s.w.Redis)
	if err != nil {
		return nil, fmt.Errorf("tap: %w", err)
	}

	if sharded { // an error comes from Receive too
		_ = ps.SSubscribe(ctx, channel)
	} else {
		_ = ps.Subscribe(ctx, channel)
	}

	_, err = wire.Receive(ctx, ps)
	if err == nil {
		return ps, nil
	}

	_ = ps.Close()
	if sharded && isUnknown(err) {
		s.unsharded.Store(true)
		return s.subscribe(ctx)
	}

	return nil, s.w.Fail("taplisten", err)
}

// isUnknown reports whether the server does not know the command.
func isUnknown(err error) bool { return err != nil && strings.Contains(err.Error(), "unknown command") }
