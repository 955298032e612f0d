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

// Engine is the service behind the pages: what the API has, and what only pages
// need. All its methods may be called at the same time.
type Engine interface {
	api.Engine
	Recorder
	Amender
}

// Physician reads the health of the receivers of each route.
type Physician interface {
	Health(ctx context.Context) ([]health.Route, error)
	// ReceiverDay returns what a receiver of a route answered within a day.
	ReceiverDay(ctx context.Context, prefix, receiver string) (health.Day, error)
}

// Recorder knows what was done and what is to come.
type Recorder interface {
	// Minutes are what all instances did, minute by minute: behind the entry of
	// that ID, or since a time if there is none. The ID returned leads on.
	Minutes(ctx context.Context, behind string, since time.Time) ([]fleet.Minute, string, error)
	// Forecast counts what falls due under a prefix in each of n spans from now, without
	// the nodes of a cluster that are missing.
	Forecast(ctx context.Context, prefix string, span time.Duration, n int) (counts []int64, missing []wire.Lost, err error)
	// Shards is how many parts each count is made of.
	Shards() int
}

// Amender changes many notices at once.
type Amender interface {
	// AmendMany changes notices that were listed, in bounded steps, and is how many
	// it changed; that is known with an error too. In a cluster it leaves out the nodes
	// that are missing.
	AmendMany(ctx context.Context, op store.Amendment, list []store.Amended) (done int, missing []wire.Lost, err error)
}
