package engine

import (
	"context"
	"time"

	"go.uber.org/zap"

	"notifier/internal/audit"
)

// tendAuditEvery is how often an instance registers the clients of its configuration.
const tendAuditEvery = time.Minute

// trail returns the audit log in Redis.
func (e *Engine) trail() *audit.Store { return &audit.Store{Wire: e.store.Wire()} }

// tendAudit registers the clients of the configuration with the audit log until ctx ends: see
// audit.Store.
func (e *Engine) tendAudit(ctx context.Context) error {
	clients := e.o.Clients
	if len(clients) == 0 {
		clients = []string{""} // callers without a name
	}

	for {
		if err := e.trail().Tend(ctx, clients); err != nil && ctx.Err() == nil {
			e.o.Logger.Warn("cannot tidy the audit, retrying in a minute", zap.Error(err))
		}

		next := time.NewTimer(tendAuditEvery)
		select {
		case <-ctx.Done():
			next.Stop()
			return nil
		case <-next.C:
		}
	}
}
