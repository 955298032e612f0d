package engine

import (
	"context"
	"time"

	"go.uber.org/zap"

	"notifier/internal/audit"
)

// tendAuditEvery is how often an instance says which clients it has.
const tendAuditEvery = time.Minute

// trail is the audit in Redis.
func (e *Engine) trail() *audit.Store { return &audit.Store{Wire: e.store.Wire()} }

// tendAudit notes the clients of the configuration for the audit, until ctx ends: see
// audit.Store.
func (e *Engine) tendAudit(ctx context.Context) error {
	clients := e.o.Clients
	if len(clients) == 0 {
		clients = []string{""} // whoever calls has no name
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
