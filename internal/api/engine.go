package api

import (
	"context"
	"time"

	"notifier/internal/audit"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/session"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Engine is the service behind the API: the roles below, which each handler
// uses one of. All its methods may be called at the same time.
type Engine interface {
	Scheduler
	Restorer
	Finder
	Changer
	Reporter
	Lister
	Operator
	Counter
	Prober
	Musterer
	Numberer
	audit.Keeper
	session.Register
}

// Scheduler keeps new notices.
type Scheduler interface {
	// Schedule keeps one notice; concurrent calls are coalesced inside.
	Schedule(ctx context.Context, r store.Request) (store.Reply, error)
	// ScheduleMany answers each request with a reply, which has its own Err.
	ScheduleMany(ctx context.Context, rs []store.Request) []store.Reply
}

// Restorer puts notices back as they were.
type Restorer interface {
	// Restore answers each letter with a reply, which has its own Err. It may be
	// repeated.
	Restore(ctx context.Context, letters []store.Letter) []store.Reply
}

// Numberer knows the numbers that stand for clients in records.
type Numberer interface {
	// ClientNumber is the number of a client, 0 if it cannot be read.
	ClientNumber(ctx context.Context, name string) int
	// ClientName is the name of the client with a number, or # and the number.
	ClientName(ctx context.Context, number int) string
}

// Finder reads one notice.
type Finder interface {
	Find(ctx context.Context, key string) (store.Found, error)
}

// Changer changes one notice.
type Changer interface {
	Cancel(ctx context.Context, key string) (store.Change, error)
	Fire(ctx context.Context, key string) (store.Change, error)
	Redrive(ctx context.Context, key string) (store.Change, error)
	Reschedule(ctx context.Context, key string, due time.Time, delay time.Duration) (store.Change, error)
}

// Reporter takes what a consumer of a list or a stream says of the attempt that
// it has made. If another notice has taken the key since, it is found in the
// Change and nothing is done.
type Reporter interface {
	Report(ctx context.Context, key string, r notice.Report) (store.Change, error)
}

// Lister reads pages of notices.
type Lister interface {
	List(ctx context.Context, q store.Query) (store.Page, error)
	// Unrouted are the prefixes under which notices may lie although the
	// configuration has no route of that prefix any more.
	Unrouted(ctx context.Context) ([]string, error)
}

// Operator changes all of a route.
type Operator interface {
	// RedriveAll makes one bounded step; the reply's cursor leads to the next.
	RedriveAll(ctx context.Context, q store.Query, dryRun bool) (store.Redriven, error)
	Pause(ctx context.Context, prefix string) error
	Resume(ctx context.Context, prefix string) error
}

// Counter counts: Counts what Redis holds, Stats what this process has done.
type Counter interface {
	// Counts is without the nodes of a cluster that are missing.
	Counts(ctx context.Context) (list []store.Counts, missing []wire.Lost, err error)
	Stats() []RouteStats
}

// Prober reports whether this process does its work.
type Prober interface {
	Ready(ctx context.Context) Readiness
}

// Musterer knows the instances.
type Musterer interface {
	// Instances lists all, the latest sign of life first.
	Instances(ctx context.Context) ([]fleet.Instance, error)
	// Self is the id of the instance that answers; empty before it has one.
	Self() string
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

// Readiness is what a [Prober] reports.
type Readiness struct {
	Ready bool
	// Degraded: it works, but without something it should have.
	Degraded bool
	Reasons  []string
}
