package api

import (
	"context"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/fleet"
	"notifier/internal/intake"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Engine is the service behind the API. Each handler uses one of the interfaces below. All methods may be called at the
// same time.
type Engine interface {
	Scheduler
	Restorer
	Finder
	Changer
	Reporter
	Lister
	Operator
	Holder
	Counter
	Prober
	Musterer
	Numberer
	Tapper
	Redirector
	Jobber
	Forgetter
	problems.Recorder
	problems.Changes
	audit.Keeper
	auth.Register
	// Now returns the time of Redis's clock.
	Now() time.Time
}

// Scheduler stores new notices.
type Scheduler interface {
	// Check returns the faults of a request. A request without faults is not checked again by Schedule.
	Check(r *store.Request) []intake.Fault
	// Schedule stores one notice. Concurrent calls are coalesced.
	Schedule(ctx context.Context, r store.Request) (store.Reply, error)
	// ScheduleMany returns a reply for each request; each reply has its Err.
	ScheduleMany(ctx context.Context, rs []store.Request) []store.Reply
}

// Restorer restores notices.
type Restorer interface {
	// Restore returns a reply for each letter; each reply has its Err. It may be repeated.
	Restore(ctx context.Context, letters []store.Letter) []store.Reply
}

// Numberer maps clients to the numbers that records contain.
type Numberer interface {
	// ClientNumber returns the number of a client, or 0 if it cannot be read.
	ClientNumber(ctx context.Context, name string) int
	// ClientName returns the name of the client with a number; if unknown, # and the number.
	ClientName(ctx context.Context, number int) string
}

// Finder reads one notice.
type Finder interface {
	Find(ctx context.Context, key string) (store.Found, error)
}

// Opener opens sealed notices. An Engine may be one.
type Opener interface {
	// Open opens a sealed notice for a caller who may read it. Without the key it stays sealed.
	Open(ctx context.Context, f *store.Found)
	// FindForgotten sets when the subject of a sealed notice was forgotten, for a caller who may not read the content.
	FindForgotten(ctx context.Context, f *store.Found)
	// OpenText opens the sealed text of a notice's content.
	OpenText(ctx context.Context, key, sealed string) (notice.Content, error)
}

// Changer changes one notice.
type Changer interface {
	Cancel(ctx context.Context, key string) (store.Change, error)
	Fire(ctx context.Context, key string) (store.Change, error)
	Redrive(ctx context.Context, key string, x notice.Expiry) (store.Change, error)
	Reschedule(ctx context.Context, key string, due time.Time, delay time.Duration) (store.Change, error)
	// Readdress changes url and headers, and the due time if when is not nil. was is the notice before the change.
	Readdress(ctx context.Context, key string, x notice.Address, when *store.When) (c store.Change, was *notice.Notice, err error)
	// Resend sends the delivered or dead notice of an id and an ending once more; the error is a *jobs.Refusal if it cannot.
	Resend(ctx context.Context, key, id string, ending int, x notice.Expiry) (store.Change, error)
}

// Reporter applies a consumer's report on one attempt of a notice from a list or stream. If the key
// has a later notice by now, the report changes nothing, and the Change holds the later notice.
type Reporter interface {
	Report(ctx context.Context, key string, r notice.Report) (store.Change, error)
}

// Lister reads pages of notices.
type Lister interface {
	List(ctx context.Context, q store.Query) (store.Page, error)
	// Unrouted returns the prefixes that may have notices although no configured route has that prefix.
	Unrouted(ctx context.Context) ([]string, error)
}

// Operator changes a whole route.
type Operator interface {
	// AmendAll makes one bounded step. The next step continues from the reply's cursor.
	AmendAll(ctx context.Context, b store.Bulk) (store.Amends, error)
	Pause(ctx context.Context, prefix string) error
	Resume(ctx context.Context, prefix string) error
	// Release ends the record of a prefix for workers. It returns store.ErrNotRecorded or store.ErrHandled if it cannot.
	Release(ctx context.Context, prefix string) error
}

// Counter counts notices and attempts.
type Counter interface {
	// Counts counts the notices in Redis, without the missing nodes of a cluster.
	Counts(ctx context.Context) (list []store.Counts, missing []wire.Lost, err error)
	// DeadCauses counts the dead letters that died since a time (zero = all) by prefix and cause. The count may be a little older.
	DeadCauses(ctx context.Context, since time.Time) (store.DeadCount, error)
	Stats() []fleet.RouteStats
	// Recorded returns the prefixes that are recorded for workers.
	Recorded(ctx context.Context) ([]fleet.Recorded, error)
}

// Prober reports whether this process is ready.
type Prober interface {
	Ready(ctx context.Context) fleet.Readiness
}

// Musterer lists the instances.
type Musterer interface {
	// Instances returns all instances, latest heartbeat first.
	Instances(ctx context.Context) ([]fleet.Instance, error)
	// Self returns the id of this instance; empty before it has one.
	Self() string
}
