package engine

import (
	"context"
	"time"

	"notifier/internal/alarm"
	"notifier/internal/audit"
	"notifier/internal/retry"
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

	loop := retry.Loop{Min: tendAuditEvery, Max: tendAuditEvery, Logger: e.o.Logger,
		Failure: "cannot tidy the audit, retrying in a minute", Recovered: "tidying the audit again"}
	for {
		wait := tendAuditEvery
		if err := e.trail().Tend(ctx, clients); err == nil {
			loop.Succeed()
		} else if ctx.Err() == nil {
			wait = loop.Fail(err)
		}

		if !alarm.Wait(ctx, wait) {
			return nil
		}
	}
}
