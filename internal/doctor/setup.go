package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/config"
	"notifier/internal/keys"
	"notifier/internal/wire"
)

// SetupChecks are the checks of which [Setup] may return an error.
var SetupChecks = []string{"clock", durability, "memory", "persistence", "restart", "rights", "version"}

// Setup examines, through a connection that is open, how Redis is set up, not
// what it holds, and returns what is wrong: the findings of severity Error, and the
// warnings of durability. It
// changes nothing. Where CONFIG, INFO or ACL is forbidden, what they would tell
// is no finding. An error means that Redis did not answer to the end, so that
// nothing is known.
func Setup(ctx context.Context, cfg *config.Config, conn *wire.Conn) ([]Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	r := &run{Options: Options{Now: time.Now}, cfg: cfg, conn: conn, space: keys.Space{Namespace: cfg.Namespace, Shards: cfg.Shards}}
	if err := r.nodes(ctx); err != nil {
		return nil, err
	}
	r.rights(ctx)
	if err := cmp.Or(ctx.Err(), r.unanswered); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(r.found, func(f Finding) bool { return f.Severity != Error && (f.Severity != Warning || f.Check != durability) }),
		nil
}

// Servers tells the servers behind a connection from others: the run ids of the
// masters, or "" where INFO is forbidden. A server that was restarted is
// another one.
func Servers(ctx context.Context, conn *wire.Conn) (string, error) {
	var mu sync.Mutex
	var ids []string
	one := func(ctx context.Context, c redis.UniversalClient) error {
		info, err := c.InfoMap(ctx, "server").Result()
		var answer redis.Error
		if errors.As(err, &answer) && !errors.Is(wire.Wrap("info", err), wire.ErrUnavailable) {
			return nil
		} else if err != nil {
			return fmt.Errorf("info: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if id := info["Server"]["run_id"]; id != "" {
			ids = append(ids, id)
		}
		return nil
	}
	var err error
	if conn.Masters == nil {
		err = one(ctx, conn.UniversalClient)
	} else {
		err = conn.Masters(ctx, func(ctx context.Context, c *redis.Client) error { return one(ctx, c) })
	}
	slices.Sort(ids)
	return strings.Join(ids, " "), err
}

// heard notes a command that was not answered, or to nobody because the log-in was
// refused: that is not the same as one that this user may not give. Masters are
// examined one after the other.
func (r *run) heard(err error) error {
	if e := wire.Wrap("examine", err); errors.Is(e, wire.ErrUnavailable) || errors.Is(e, wire.ErrLogin) {
		r.unanswered = err
	}
	return err
}
