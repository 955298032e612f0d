package api

import (
	"context"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// Engine is what the API needs of the service behind it. All its methods may be
// called at the same time.
type Engine interface {
	// Schedule keeps one notice; concurrent calls are coalesced inside.
	Schedule(ctx context.Context, r store.Request) (store.Reply, error)
	// ScheduleMany answers each request with a reply, which has its own Err.
	ScheduleMany(ctx context.Context, rs []store.Request) []store.Reply
	Find(ctx context.Context, key string) (store.Found, error)
	Cancel(ctx context.Context, key string) (store.Change, error)
	Fire(ctx context.Context, key string) (store.Change, error)
	Redrive(ctx context.Context, key string) (store.Change, error)
	Reschedule(ctx context.Context, key string, due time.Time, delay time.Duration) (store.Change, error)
	// Report ends the attempt of that number, which a consumer of a list or a
	// stream has made.
	Report(ctx context.Context, key string, attempt int, v store.Verdict) (store.Change, error)
	List(ctx context.Context, q store.Query) (store.Page, error)
	// RedriveAll makes one bounded step; the reply's cursor leads to the next.
	RedriveAll(ctx context.Context, q store.Query, dryRun bool) (store.Redriven, error)
	Pause(ctx context.Context, prefix string) error
	Resume(ctx context.Context, prefix string) error
	Counts(ctx context.Context) ([]store.Counts, error)
	Stats() []RouteStats
	Ready(ctx context.Context) Readiness
}

// RouteStats is what this process knows of a route since it started.
type RouteStats struct {
	Prefix   string
	InFlight int
	Outcomes map[notice.Outcome]int64
	// LatenessP50 and LatenessP99 are quantiles of the time between the due
	// time and the handler's start; zero if nothing was handled yet.
	LatenessP50 time.Duration
	LatenessP99 time.Duration
}

// Readiness tells whether this process does its work.
type Readiness struct {
	Ready bool
	// Degraded: it works, but without something it should have.
	Degraded bool
	Reasons  []string
}
