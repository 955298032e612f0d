package ui

import (
	"context"

	"notifier/internal/api"
	"notifier/internal/health"
	"notifier/internal/store"
)

// Engine is the service behind the pages. All its methods may be called at the same time.
type Engine interface {
	api.Engine
	Amender
}

// Physician reads the health of the receivers of each route.
type Physician interface {
	Health(ctx context.Context) ([]health.Route, error)
	// ReceiverDay returns the responses of a receiver of a route within a day.
	ReceiverDay(ctx context.Context, prefix, receiver string) (health.Day, error)
}

// Amender changes many notices at once.
type Amender interface {
	// AmendAll makes one bounded step of a change of many dead letters.
	AmendAll(ctx context.Context, b store.Bulk) (store.Amends, error)
}
