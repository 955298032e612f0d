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
		return "A part of Redis does not answer: what lies there is missing here."
	}
	names := make([]string, len(lost))
	for i, l := range lost {
		names[i] = cmp.Or(l.Node, "whose address is not known")
	}
	if len(names) == 1 {
		return "Redis node " + names[0] + " does not answer: what lies there is missing here."
	}
	return "Redis nodes " + strings.Join(names, ", ") + " do not answer: what lies there is missing here."
}

// stale says why figures are not of this moment; empty if they are.
func (p *Pages) stale(b *board, v Visitor) string {
	if b.Err == nil {
		return ""
	}
	if at := wire.NodeOf(b.Err); at != "" {
		if !v.All() {
			return "What the instances do, and have done, is old: the part of Redis where it lies does not answer."
		}
		return "What the instances do, and have done, is old: it lies at Redis node " + at + ", which does not answer."
	}
	why := p.failure(context.Background(), b.Err).text
	if b.Fresh.IsZero() {
		return "No figures yet: " + why
	}
	return "These figures are from " + b.Fresh.UTC().Format(time.TimeOnly) + " UTC (" + ago(b.At, b.Fresh) + "): " + why
}
