package wire

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"

	"notifier/internal/node"
)

// Once is a write that is sent at most once. A client of a cluster sends a command again when its
// connection broke or its answer is late, whatever MaxRetries says: a claim made
// twice is lost to itself, an entry pushed twice is there twice. Of a write it
// does so only where Redis has not carried it out. MOVED and ASK it follows for
// any command: nothing is carried out by a node that answers so.
type Once struct{ *redis.Cmd }

// NoRetry reports whether the command must not be sent again. go-redis asks
// after each failure, and before it, with no error yet, for a whole pipeline.
func (c Once) NoRetry() bool { return mayHaveRun(c.Err()) }

// mayHaveRun reports whether a command that came to err may have been carried
// out all the same. It was not, if Redis answered that it refuses it, or if no
// connection was there to send it on.
func mayHaveRun(err error) bool {
	var answer redis.Error
	return !errors.As(err, &answer) && !NotSent(err)
}

// NotSent reports whether what came to err has never reached Redis.
func NotSent(err error) bool {
	var broken *net.OpError
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, node.ErrAway):
		return true
	case errors.As(err, &broken):
		return broken.Op == "dial"
	}
	return false
}

// NewWrite makes a write whose first key stands at a place among its arguments.
func NewWrite(ctx context.Context, place int8, args ...any) Once {
	c := Once{redis.NewCmd(ctx, args...)}
	c.SetFirstKeyPos(place)
	return c
}

// send makes a write. Where its answer is lost, the nodes of a cluster are asked
// at once who serves what: the one that was to answer may have been replaced.
func send(ctx context.Context, c redis.UniversalClient, w Once) *redis.Cmd {
	if lost(c.Process(ctx, w)) {
		reload(ctx, c)
	}
	return w.Cmd
}

// sendAll makes writes in one pipeline. Each has its own error.
func sendAll(ctx context.Context, c redis.UniversalClient, list []Once) {
	pipe := c.Pipeline()
	for _, w := range list {
		_ = pipe.Process(ctx, w)
	}
	_, _ = pipe.Exec(ctx)
	if slices.ContainsFunc(list, func(w Once) bool { return lost(w.Err()) }) {
		reload(ctx, c)
	}
}

// lost reports whether a write has no answer.
func lost(err error) bool {
	return err != nil && (mayHaveRun(err) || errors.Is(err, node.ErrAway))
}

// reload has the nodes of a cluster asked who serves what.
func reload(ctx context.Context, c redis.UniversalClient) {
	if cluster, ok := c.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}
