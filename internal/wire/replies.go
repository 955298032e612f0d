package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// MalformedError is returned for a reply over which go-redis panicked, such as an empty list in place of a message. The
// connection is closed.
type MalformedError struct{ Cause any }

func (e *MalformedError) Error() string {
	return fmt.Sprintf("redis sent a malformed reply, the connection is closed: %v", e.Cause)
}

// Severe makes [pace.Loop] log it as an error.
func (*MalformedError) Severe() {}

// ConnectError is returned for a connection that Redis refused or closed before its first reply. Nothing was sent.
type ConnectError struct {
	Said bool  // Redis replied that maxclients is reached
	Most int64 // maxclients; 0 = unknown
	Err  error // nil if Said
}

func (e *ConnectError) Error() string {
	limit := "maxclients"
	if e.Most > 0 {
		limit += " (" + strconv.FormatInt(e.Most, 10) + ")"
	}

	if e.Said {
		return "redis has reached " + limit + " and refuses connections"
	}

	return "redis closed the connection at once, it may have reached " + limit + ": " + e.Err.Error()
}

// Unwrap returns the cause. It is never a reply of Redis, which go-redis would ignore.
func (e *ConnectError) Unwrap() error { return e.Err }

// Replies is a hook of go-redis clients. It returns a [MalformedError] or a [ConnectError] where go-redis would panic,
// or would take a refusal for an old Redis that does not know HELLO.
type Replies struct{ maxClients atomic.Int64 }

// SetMaxClients sets the number that a ConnectError contains.
func (r *Replies) SetMaxClients(n int64) { r.maxClients.Store(n) }

// DialHook changes nothing.
func (*Replies) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements [redis.Hook].
func (r *Replies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = &MalformedError{cause}
				cmd.SetErr(err)
			}
		}()
		if err = next(ctx, cmd); err != nil && cmd.Name() == "hello" {
			err = r.refused(err)
			cmd.SetErr(err)
		}

		return err
	}
}

// ProcessPipelineHook implements [redis.Hook]. After a malformed reply it is unknown which commands have their own.
func (*Replies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}

			err = &MalformedError{cause}
			for _, cmd := range cmds {
				if cmd.Err() == nil {
					cmd.SetErr(err)
				}
			}
		}()
		return next(ctx, cmds)
	}
}

// refused returns the error of the first command of a connection.
func (r *Replies) refused(err error) error {
	said := redis.IsMaxClientsError(err)
	if !said && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return err
	}

	e := &ConnectError{Said: said, Most: r.maxClients.Load()}
	if !said {
		e.Err = err
	}

	return &unmadeError{e}
}

// Subscription receives the messages of channels. *redis.PubSub is one.
type Subscription interface {
	Subscribe(ctx context.Context, channels ...string) error
	PSubscribe(ctx context.Context, patterns ...string) error
	SSubscribe(ctx context.Context, channels ...string) error
	Ping(ctx context.Context, payload ...string) error
	Receive(ctx context.Context) (message any, err error)
	Close() error
}

// Follow passes the messages of a subscription to f, and errors of single commands too, until f returns an error or ctx
// ends. It returns that error, or the cause of ctx, and closes sub. It sends a PING after each interval, and also ends when
// sub was silent for longer than silence: go-redis does not wait for the answers to its PINGs.
func Follow(ctx context.Context, sub Subscription, every, silence time.Duration, f func(message any, err error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	from := time.Now()
	var heard atomic.Int64 // since from

	var checks sync.WaitGroup
	defer checks.Wait()
	defer cancel(nil)
	checks.Go(func() {
		<-ctx.Done()
		_ = sub.Close() // ends a Receive that waits on a silent connection
	})
	checks.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}

			if quiet := time.Since(from) - time.Duration(heard.Load()); quiet > silence {
				cancel(fmt.Errorf("the subscription has been silent for %s", quiet.Round(time.Millisecond)))
			} else if err := sub.Ping(ctx); err != nil {
				cancel(fmt.Errorf("ping: %w", err))
			}
		}
	})

	for {
		m, err := Receive(ctx, sub)
		heard.Store(int64(time.Since(from)))
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err = f(m, err); err != nil {
			return err
		}
	}
}

// Receive is sub.Receive, but returns a [MalformedError] where go-redis panics. The caller must close sub after an error.
func Receive(ctx context.Context, sub Subscription) (message any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			message, err = nil, &MalformedError{cause}
		}
	}()
	return sub.Receive(ctx)
}
