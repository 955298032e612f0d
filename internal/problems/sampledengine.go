package problems

import (
	"context"
	"time"

	"notifier/internal/audit"
	"notifier/internal/fleet"
	"notifier/internal/jobs"
	"notifier/internal/receivers"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Engine is the service that a Sampler reads. All its methods may be called at the same time.
type Engine interface {
	Recorder
	// Ready reports whether this process is ready.
	Ready(ctx context.Context) fleet.Readiness
	// Instances returns all instances, latest heartbeat first. Self is the id of this one.
	Instances(ctx context.Context) ([]fleet.Instance, error)
	Self() string
	// Counts counts the notices in Redis, and DeadCauses the dead letters since a time by prefix and cause.
	Counts(ctx context.Context) (list []store.Counts, missing []wire.Lost, err error)
	DeadCauses(ctx context.Context, since time.Time) (store.DeadCount, error)
	// Recorded returns the prefixes that are recorded for workers.
	Recorded(ctx context.Context) ([]fleet.Recorded, error)
	// Holds returns the paused and limited receivers, and HeldCounts the held notices of pauses by prefix.
	Holds(ctx context.Context) (*receivers.HoldTable, error)
	HeldCounts(ctx context.Context, pauses []string) ([]map[string]int64, error)
	Redirects(ctx context.Context) ([]jobs.Job, error)
	Changes
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

// Changes reads when the settings of routes were changed.
type Changes interface {
	// RouteChanges returns the last change of the settings of each route, by its name.
	RouteChanges(ctx context.Context) (map[string]audit.Change, error)
}

// Health reads the health of the receivers of each route.
type Health interface {
	Health(ctx context.Context) ([]receivers.RouteHealth, error)
}
