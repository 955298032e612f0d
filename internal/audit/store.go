package audit

import (
	"context"
	_ "embed"
	"time"

	"notifier/internal/wire"
)

// auditMost is how many entries each stream of the audit keeps, and auditSame for how
// long calls that are the same are one entry.
const (
	auditMost = 2000
	auditSame = time.Minute
)

// auditTimeout is the time limit for writing an entry whose caller is gone.
const auditTimeout = time.Second

//go:embed lua/audit.lua
var auditSource string

var auditScript = wire.NewScript("audit", auditSource, true).Anywhere()

// Store keeps the audit in Redis. Its methods are safe for concurrent use.
type Store struct{ Wire *wire.Client }

// Audit adds e to one of the two streams of its client: one has rare actions, the other has all others ([Class]). If
// the same call was recorded within the last minute, Audit instead increments the count of that entry.
//
// In a cluster, Audit does not wait for a slow node, but returns an error. The entry may still be written later.
func (s *Store) Audit(ctx context.Context, e Entry) error {
	if !s.Wire.Cluster {
		return s.addEntry(ctx, e)
	}

	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- s.addEntry(own, e)
	}()
	tick := time.NewTicker(wire.MaxSilence / 4)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return s.Wire.Fail("audit", ctx.Err())
		case <-tick.C:
			if at := s.Wire.Master(ctx, s.Wire.Space.AuditClients()); s.Wire.Nodes.Slow(at) {
				return s.Wire.Fail("audit", &wire.AwayError{Addr: at})
			}
		}
	}
}

func (s *Store) addEntry(ctx context.Context, e Entry) error {
	class := string(e.Action.Class())
	args := []any{e.Client, auditMost, auditSame.Milliseconds()}
	for _, f := range e.Fields() {
		args = append(args, f)
	}

	_, err := s.Wire.Run(ctx, auditScript, []string{s.Wire.Space.Audit(e.Client, class), s.Wire.Space.AuditRepeats(e.Client, class),
		s.Wire.Space.AuditClients(), s.Wire.Space.AuditLast()}, args)
	return err
}
