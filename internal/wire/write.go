package wire

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Once is a write command that is not sent to Redis again if Redis may already have executed it. A second execution
// could do harm, so the caller gets the error and decides whether to repeat the write. Other commands are sent again by
// the cluster client of go-redis when the connection breaks or the reply is late. Redirections to another cluster node
// (MOVED, ASK) are followed.
type Once struct{ *redis.Cmd }

// NoRetry reports whether the command must not be sent again. go-redis asks
// after each failure, and before it, with no error yet, for a whole pipeline.
func (c Once) NoRetry() bool { return mayHaveRun(c.Err()) }

// mayHaveRun reports whether a command that failed with err may have been executed. It was not
// executed if Redis replied with an error, or if there was no connection to send it.
func mayHaveRun(err error) bool {
	var answer redis.Error
	return !errors.As(err, &answer) && !NotSent(err)
}

// NotSent reports whether the call with error err has never reached Redis.
func NotSent(err error) bool {
	var broken *net.OpError
	var refused *ConnectError
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, ErrAway),
		errors.As(err, &refused):
		return true
	case errors.As(err, &broken):
		return broken.Op == "dial"
	}

	return false
}

// NewWrite returns a write. place is the index of its first key among its arguments.
func NewWrite(ctx context.Context, place int8, args ...any) Once {
	c := Once{redis.NewCmd(ctx, args...)}
	c.SetFirstKeyPos(place)
	return c
}

// direct sends writes without a confirmation.
type direct struct{ c Commander }

// send sends a write. If the reply is lost, it updates the map of cluster nodes at once, since the
// node may have been replaced.
func (d direct) send(ctx context.Context, w Once) *redis.Cmd {
	if lost(d.c.Process(ctx, w)) {
		reload(ctx, d.c)
	}
	return w.Cmd
}

// sendAll makes writes in one pipeline. Each has its own error.
func sendAll(ctx context.Context, c Commander, list []Once) {
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
	return err != nil && (mayHaveRun(err) || errors.Is(err, ErrAway))
}

// reload has the nodes of a cluster asked who serves what.
//
//go:noinline
func reload(ctx context.Context, c redis.Cmdable) {
	if cluster := clusterOf(c); cluster != nil {
		cluster.ReloadState(ctx)
	}
}
