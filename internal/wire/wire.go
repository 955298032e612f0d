package wire

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// Options of a Client.
type Options struct {
	Client Commander
	Space  keys.Space
	// Cluster reports whether the keys are on several nodes.
	Cluster bool
	// Nodes has the slow nodes of a cluster; nil = no node is slow.
	Nodes *Nodes
	// Confirm is the confirmation for scripts that are Confirmed, ConfirmSettle for those that are
	// ConfirmedSettle. If either is set, Conn creates the connections.
	Confirm, ConfirmSettle Confirm
	Conn                   *Conn
	// Observer, if not nil, is notified of each failed operation.
	Observer Observer
}

// Observer is notified of failed operations. Its methods must not block.
type Observer interface {
	// Failed is called with the name of the operation and its error, which Wrap has classified.
	Failed(op string, err error)
}

// Client sends commands and scripts to Redis. It is safe for concurrent use.
type Client struct {
	// Redis is for single commands, Space names the keys. None of these changes.
	Redis   Commander
	Space   keys.Space
	DB      int // the number of the database, which is part of some names of channels
	Cluster bool
	Nodes   *Nodes
	Conn    *Conn // nil = the Client creates no connections
	// Clock estimates Redis's clock. The heartbeats measure it; without any it shows this machine's clock.
	Clock *Clock

	observer       Observer
	allowOOM       atomic.Bool
	calls, settles *confirmer // nil = no confirmation
	batches        batches
}

// New returns a Client. It sends nothing to Redis.
func New(o Options) *Client {
	w := &Client{Redis: o.Client, Space: o.Space.Live(), Cluster: o.Cluster, Nodes: o.Nodes, Conn: o.Conn, Clock: &Clock{},
		observer: o.Observer}
	if c, ok := o.Client.(*redis.Client); ok { // a cluster has the database 0 only
		w.DB = c.Options().DB
	}

	w.calls, w.settles = w.newConfirmer(o.Confirm), w.newConfirmer(o.ConfirmSettle)
	return w
}

// Detect detects the features of the server, after each connect.
func (w *Client) Detect(ctx context.Context) error {
	info, err := w.AnyNode(ctx).Info(ctx, "server").Result()
	var answer redis.Error
	if err != nil && !redis.IsPermissionError(err) && (!errors.As(err, &answer) || kind(err) != nil) {
		return w.Fail("info", err)
	}

	// A server that refuses INFO is treated as an old one.
	major, _ := version(info)
	w.allowOOM.Store(major >= 7)
	if w.Conn != nil {
		w.Conn.replies.SetMaxClients(w.maxClients(ctx))
	}

	return nil
}

// maxClients returns the maxclients of the server; 0 if it is unknown, as before Redis 7.
func (w *Client) maxClients(ctx context.Context) int64 {
	info, _ := w.AnyNode(ctx).Info(ctx, "clients").Result()
	_, rest, _ := strings.Cut(info, "\nmaxclients:")
	text, _, _ := strings.Cut(rest, "\r")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// Fail reports an error to the Observer, unless the caller has caused it, and wraps it: see [Wrap].
func (w *Client) Fail(op string, err error) error {
	seen := w.observer != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrMoved)
	if errors.Is(err, redis.Nil) { // callers for which a value may be missing have handled it
		err = fmt.Errorf("%w: %w", ErrReply, err)
	}

	err = Wrap(op, err)
	if seen {
		w.observer.Failed(op, err)
	}

	return err
}

// Now returns the time of Redis's clock.
func (w *Client) Now(ctx context.Context) (time.Time, error) {
	t, err := w.Redis.Time(ctx).Result()
	if err != nil {
		return time.Time{}, w.Fail("history", err)
	}

	return t.UTC(), nil
}

// Wrapped is Fail for an error that may be nil.
func (w *Client) Wrapped(op string, err error) error {
	if err == nil {
		return nil
	}
	return w.Fail(op, err)
}
