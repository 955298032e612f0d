package ui

import (
	"context"
	"time"

	"notifier/internal/api"
	"notifier/internal/fleet"
	"notifier/internal/health"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Engine is the service behind the pages. All its methods may be called at the same time.
type Engine interface {
	api.Engine
	Recorder
	Amender
}

// Physician reads the health of the receivers of each route.
type Physician interface {
	Health(ctx context.Context) ([]health.Route, error)
	// ReceiverDay returns the responses of a receiver of a route within a day.
	ReceiverDay(ctx context.Context, prefix, receiver string) (health.Day, error)
}

// Recorder reads past and future work.
type Recorder interface {
	// Minutes returns the work of all instances by minute, after the entry with an ID, or since a time if
	// the ID is empty. It also returns the ID of the last entry.
	Minutes(ctx context.Context, behind string, since time.Time) ([]fleet.Minute, string, error)
	// Forecast counts the notices due under a prefix in each of n spans from now, without the missing
	// nodes of a cluster.
	Forecast(ctx context.Context, prefix string, span time.Duration, n int) (counts []int64, missing []wire.Lost, err error)
	// Shards is the number of parts of each count.
	Shards() int
}

// Amender changes many notices at once.
type Amender interface {
	// AmendAll makes one bounded step of a change of many dead letters.
	AmendAll(ctx context.Context, b store.Bulk) (store.Amends, error)
}
