package audit

import (
	"context"
	_ "embed"
	"time"

	"notifier/internal/node"
	"notifier/internal/wire"
)

// auditMost is how many entries each stream of the audit keeps, and auditSame for how
// long calls that are the same are one entry.
const (
	auditMost = 2000
	auditSame = time.Minute
)

// auditTimeout is how long an entry may take to be written where nobody waits for it any
// more.
const auditTimeout = time.Second

//go:embed lua/audit.lua
var auditSource string

var auditScript = wire.NewScript("audit", auditSource, true).Anywhere()

// Store keeps the audit in Redis. Its methods are safe for concurrent use.
type Store struct{ Wire *wire.Client }

// Audit appends an entry to the audit, or counts it in the entry of the same call. Where
// the node of a cluster that has the audit is slow it does not wait for it: the entry may
// be written all the same.
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
	tick := time.NewTicker(node.MaxSilence / 4)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return s.Wire.Fail("audit", ctx.Err())
		case <-tick.C:
			if at := s.Wire.Master(ctx, s.Wire.Space.AuditClients()); s.Wire.Nodes.Slow(at) {
				return s.Wire.Fail("audit", &node.AwayError{Addr: at})
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
