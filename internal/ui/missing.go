package ui

import (
	"cmp"
	"context"
	"notifier/internal/wire"
	"strings"
	"time"
)

// away says, in a sentence, which nodes of a cluster do not answer, so that what a page
// shows is without what lies there; empty if there are none. Only who sees everything
// is told their addresses.
func (v Visitor) away(lost []wire.Lost) string {
	if len(lost) == 0 {
		return ""
	}
	if !v.All() {
		return "A part of Redis is unavailable: its notices are not shown here."
	}
	names := make([]string, len(lost))
	for i, l := range lost {
		names[i] = cmp.Or(l.Node, "whose address is not known")
	}
	if len(names) == 1 {
		return "Redis node " + names[0] + " is unavailable: its notices are not shown here."
	}
	return "Redis nodes " + strings.Join(names, ", ") + " are unavailable: their notices are not shown here."
}

// stale says why figures are not of this moment; empty if they are.
func (p *Pages) stale(b *board, v Visitor) string {
	if b.Err == nil {
		return ""
	}
	if at := wire.NodeOf(b.Err); at != "" {
		if !v.All() {
			return "Figures of instances are outdated: the part of Redis that stores them is unavailable."
		}
		return "Figures of instances are outdated: they are stored at Redis node " + at + ", which is unavailable."
	}
	why := p.failure(context.Background(), b.Err).text
	if b.Fresh.IsZero() {
		return "No figures yet: " + why
	}
	return "These figures are from " + b.Fresh.UTC().Format(time.TimeOnly) + " UTC (" + ago(b.At, b.Fresh) + "): " + why
}
