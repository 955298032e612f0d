package engine

import (
	"context"
	"crypto/rand"

	"notifier/internal/tracing"
)

// OpenTap opens a client's tap on the keys under a prefix.
func (e *Engine) OpenTap(ctx context.Context, client, prefix string) (*tracing.Tap, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return e.hub.Open(ctx, client, rand.Text(), prefix)
}

// Taps returns the number of open taps at this instance.
func (e *Engine) Taps() int { return e.hub.Count() }
