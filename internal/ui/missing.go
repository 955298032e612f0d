package ui

import (
	"cmp"
	"context"
	"time"

	"notifier/internal/problems"
	"notifier/internal/wire"
)

// away returns the sentence about unavailable nodes of a cluster; nil if there are none. Only visitors who
// see all notices see the addresses of the nodes.
func (v Visitor) away(lost []wire.Lost) text {
	if len(lost) == 0 {
		return nil
	}
	if !v.All() {
		return say("A part of Redis is unavailable. Its notices are not shown here.")
	}

	names := make([]string, len(lost))
	for i, l := range lost {
		names[i] = cmp.Or(l.Node, "?")
	}

	return say("Redis is unavailable at %s. The notices stored there are not shown here.", names)
}

// stale returns why the figures are outdated; nil if they are current.
func (p *Pages) stale(b *problems.Board, v Visitor) text {
	if b.Err == nil {
		return nil
	}

	if at := wire.NodeOf(b.Err); at != "" {
		if !v.All() {
			return say("The figures of instances are outdated: the part of Redis that stores them is unavailable.")
		}
		return say("The figures of instances are outdated: Redis node `%s`, which stores them, is unavailable.", at)
	}

	why := p.failure(context.Background(), b.Err).text
	if b.Fresh.IsZero() {
		return say("No figures yet: %s", why)
	}

	return say("These figures are from %s UTC (%s): %s", b.Fresh.UTC().Format(time.TimeOnly), fromNow(b.At, b.Fresh), why)
}
