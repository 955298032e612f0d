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

// SetupChecks lists the checks of [Setup]'s findings.
var SetupChecks = []string{"clock", durability, "memory", "persistence", "restart", "rights", "version"}

// Setup checks the settings and rights of Redis through an open connection, and changes nothing. It returns the
// findings of severity Error, and the warnings of the check durability. For a setting that the Redis user may not read,
// there may be no finding. The error is not nil if Redis does not answer or refuses the log-in.
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

// Servers identifies the servers behind a connection: the run ids of the masters, or "" if INFO is refused. A restarted
// server has another run id.
func Servers(ctx context.Context, conn *wire.Conn) (string, error) {
	var mu sync.Mutex
	var ids []string
	one := func(ctx context.Context, c redis.Cmdable) error {
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
		err = one(ctx, conn.Commander)
	} else {
		err = conn.Masters(ctx, one)
	}

	slices.Sort(ids)
	return strings.Join(ids, " "), err
}

// heard returns err, and records in unanswered that Redis did not answer or refused the log-in. A command that the user
// may not send does not count. Masters are checked one after the other.
func (r *run) heard(err error) error {
	if e := wire.Wrap("examine", err); errors.Is(e, wire.ErrUnavailable) || errors.Is(e, wire.ErrLogin) {
		r.unanswered = err
	}
	return err
}
