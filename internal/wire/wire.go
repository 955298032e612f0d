package wire

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/node"
)

// Options of a Client.
type Options struct {
	Client redis.UniversalClient
	Space  keys.Space
	// Cluster: keys lie at several nodes.
	Cluster bool
	// Nodes tells which nodes of a cluster are slow; nil = none ever is.
	Nodes *node.Nodes
	// Confirm is what scripts wait for that are Confirmed, ConfirmSettle those that are
	// ConfirmedSettle. If either waits, connections are made by Conn.
	Confirm, ConfirmSettle Confirm
	Conn                   *Conn
	// OnError, if not nil, hears of each failed operation.
	OnError func(op string)
}

// Client is safe for concurrent use.
type Client struct {
	// Redis is for single commands, Space names the keys. None of these changes.
	Redis   redis.UniversalClient
	Space   keys.Space
	Cluster bool
	Nodes   *node.Nodes
	Conn    *Conn // nil where no connections are to be made

	onError        func(op string)
	allowOOM       atomic.Bool
	calls, settles *confirmer // nil = nothing is waited for
	guard          Guard
}

// Guard sends guarded scripts: package layout knows whether Redis holds what they are
// written for.
type Guard interface {
	Guarded(ctx context.Context, sc *Script, keys []string, args []any) *redis.Cmd
}

// New makes a Client. It does not speak to Redis.
func New(o Options) *Client {
	w := &Client{Redis: o.Client, Space: o.Space.Live(), Cluster: o.Cluster, Nodes: o.Nodes, Conn: o.Conn, onError: o.OnError}
	w.calls, w.settles = w.newConfirmer(o.Confirm), w.newConfirmer(o.ConfirmSettle)
	return w
}

// GuardBy has g send the guarded scripts. It is called before the first of them is run.
func (w *Client) GuardBy(g Guard) { w.guard = g }

// Detect learns what the server can do. It is called after each connect.
func (w *Client) Detect(ctx context.Context) error {
	info, err := w.AnyNode(ctx).Info(ctx, "server").Result()
	var answer redis.Error
	if err != nil && !redis.IsPermissionError(err) && (!errors.As(err, &answer) || kind(err) != nil) {
		return w.Fail("info", err)
	}
	// A server that refuses INFO is taken for an old one.
	major, _ := version(info)
	w.allowOOM.Store(major >= 7)
	return nil
}

// Fail counts an error and says what kind it is.
func (w *Client) Fail(op string, err error) error {
	if w.onError != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrMoved) {
		w.onError(op)
	}
	return Wrap(op, err)
}

// Wrapped is Fail of what may be no error.
func (w *Client) Wrapped(op string, err error) error {
	if err == nil {
		return nil
	}
	return w.Fail(op, err)
}
