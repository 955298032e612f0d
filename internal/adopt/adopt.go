package adopt

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/alarm"
	"notifier/internal/keys"
	"notifier/internal/retry"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Store is what adoption needs of Redis.
type Store interface {
	Peek(ctx context.Context, p keys.Partition, ks []string, maxBody int64) (now time.Time, seen []store.Seen, looked int, err error)
	PeekTimers(ctx context.Context, ks []string, maxBody int64) ([]store.Seen, error)
	Adopt(ctx context.Context, p keys.Partition, list []store.Adoption) ([]bool, error)
	Where(ctx context.Context, ks []string) ([]int, error)
	Stranded(ctx context.Context, ks []string) ([]bool, error)
	Unknown(ctx context.Context, p keys.Partition, ks []string, late time.Duration) (none, old []string, err error)
	Schedule(ctx context.Context, p keys.Partition, reqs []store.Request) ([]store.Reply, error)
	Strays(ctx context.Context, p keys.Partition, cursor string) (ks []string, next string, err error)
	StraysDue(ctx context.Context, p keys.Partition, within time.Duration) (ks []string, next time.Duration, err error)
	Evicts(ctx context.Context) (bool, error)
	Timers(ctx context.Context, masters func(context.Context, func(context.Context, *redis.Client) error) error, pattern string, n int64,
		f func(ctx context.Context, ks []string) error) error
}

// Cluster are the masters of a cluster.
type Cluster interface {
	// Masters calls f for each master.
	Masters(ctx context.Context, f func(ctx context.Context, c *redis.Client) error) error
	// Master is the address of the master that holds a key.
	Master(ctx context.Context, key string) string
}

// Observer counts the notices of a route that are new, and those of them that have lost
// their body.
type Observer interface {
	Scheduled(route string, n int)
	BodiesLost(route string, n int)
}

// Events reports whether keyspace events are known to arrive. While they do not, keys are
// looked at every second.
type Events interface{ Adopting() bool }

// silent is an Observer that does nothing, and Events that arrive.
type silent struct{}

func (silent) Scheduled(string, int)  {}
func (silent) BodiesLost(string, int) {}
func (silent) Adopting() bool         { return true }

// Options of an Adopter.
type Options struct {
	Store   Store
	Routes  *route.Table
	Space   keys.Space
	Cluster Cluster // nil outside a cluster
	// MaxBody is the longest payload that is kept.
	MaxBody int64
	// Observer may be nil.
	Observer Observer
	// Every is how often all keys are looked at without a reason; zero = 1 m. It
	// is less often where a look takes long: see scanShare.
	Every time.Duration
	// Events may be nil: they arrive.
	Events Events
	// Confirm is how long events are waited for that tell why a timer is gone;
	// zero = 250 ms.
	Confirm time.Duration
	Logger  *zap.Logger
}

// Adopter follows plain timers. Event and Scan may be called from anywhere and
// never block; one goroutine runs Run.
type Adopter struct {
	o        Options
	prefixes []string // that cover all routes that adopt

	wake    chan struct{}
	mu      sync.Mutex
	pending map[string]eventSet // keys to look at
	held    map[string]eventSet // keys at nodes of a cluster that did not answer, to look at from until on
	until   time.Time
	scan    bool
	second  []secondLook // the soonest first
	dropped int          // expired keys there was no room for

	payloads payloads

	// Used by Run only.
	evicts  bool      // Redis may evict: what is gone need not have been deleted
	compare time.Time // when timers are compared next with what is due soon
}

// The bounds of what is kept in memory and of one call. Expired keys have room
// of their own, since no scan finds those that are dropped.
const (
	maxPending        = 1 << 16
	maxPendingExpired = 1 << 18
	batch             = 48 // so that no call holds Redis up for longer than about half a millisecond
	scanBatch         = 500
	callLimit         = 5 * time.Second
	callLimitApart    = time.Second // in a cluster: others wait meanwhile
	everyBlind        = time.Second // between looks where no events come
	// late is how long after its notice has ended a timer's event may still
	// come. Timers are touched when their notices are claimed, so it is seconds.
	late = 5 * time.Minute
)

// New makes an Adopter. Without a route that adopts it does nothing.
func New(o Options) *Adopter {
	if o.Every == 0 {
		o.Every = time.Minute
	}
	if o.Confirm == 0 {
		o.Confirm = 250 * time.Millisecond
	}
	if o.Events == nil {
		o.Events = silent{}
	}
	if o.Observer == nil {
		o.Observer = silent{}
	}
	a := &Adopter{o: o, wake: make(chan struct{}, 1), pending: map[string]eventSet{}, held: map[string]eventSet{}}
	for _, r := range o.Routes.All() {
		if r.Adopt && !slices.ContainsFunc(o.Routes.All(), func(b *route.Route) bool { return b.Adopt && keys.HasPrefix(r.Prefix, b.Prefix) }) {
			a.prefixes = append(a.prefixes, r.Prefix)
		}
	}
	return a
}

// Event takes a keyspace event of a key of a route that adopts.
func (a *Adopter) Event(_ *route.Route, key, event string) {
	if t, ok := readEvent(event); ok {
		a.note(key, t)
	}
}

// Stale takes keys whose expired events led to no claim. Where the notice is
// pending for later, its owner has shortened the timer's life and it was over
// before anybody looked: the notice is due now.
func (a *Adopter) Stale(r *route.Route, keys []string) {
	if !r.Adopt {
		return
	}
	for _, k := range keys {
		a.note(k, eventSet{event: true, expired: true})
	}
}

// Adopts reports whether any route adopts.
func (a *Adopter) Adopts() bool { return len(a.prefixes) > 0 }

// Follow looks at the timers of keys at once: what a client has set is adopted
// before a call of the API says something about its name. Keys of routes that do
// not adopt are passed over.
func (a *Adopter) Follow(ctx context.Context, ks ...string) error {
	if !a.Adopts() {
		return nil
	}
	some := map[string]eventSet{}
	for _, k := range ks {
		some[k] = eventSet{asked: true}
	}
	_, err := a.followKeys(ctx, some)
	return err
}

// FollowEach is Follow that says of each key by itself why it could not be looked at.
func (a *Adopter) FollowEach(ctx context.Context, ks []string) map[string]error {
	if !a.Adopts() {
		return nil
	}
	some := map[string]eventSet{}
	for _, k := range ks {
		some[k] = eventSet{asked: true}
	}
	failed, _ := a.followKeys(ctx, some) // each has its own
	return failed
}

func (a *Adopter) callLimit() time.Duration {
	if a.o.Cluster != nil {
		return callLimitApart
	}
	return callLimit
}

// Run adopts until ctx ends, and returns nil.
func (a *Adopter) Run(ctx context.Context) error {
	if len(a.prefixes) == 0 {
		<-ctx.Done()
		return nil
	}
	again := retry.Loop{Min: 40 * time.Millisecond, Max: time.Second, Logger: a.o.Logger,
		Failure: "adoption failed, retrying", Recovered: "adopting again"}
	next := time.Now().Add(a.o.Every)
	for ctx.Err() == nil {
		err := a.Drain(ctx)
		if err == nil {
			err = a.lookAgain(ctx)
		}
		if err == nil {
			err = a.compareDue(ctx)
		}
		if err == nil && a.scanDue(&next) {
			from := time.Now()
			if err = a.Look(ctx); err != nil && a.o.Cluster == nil {
				a.Scan() // in a cluster the next turn, or the subscription at the node that is back, does
			}
			if later := time.Now().Add(scanShare * time.Since(from)); later.After(next) {
				next = later
			}
		}
		if err != nil && ctx.Err() == nil {
			pause := again.Fail(err)
			if a.o.Cluster == nil {
				alarm.Wait(ctx, pause)
				continue
			}
			a.hold(pause)
		}
		turn, holds := a.nextTurn(next), false
		if turn, holds = a.release(turn); !holds && err == nil {
			again.Succeed()
		}
		select {
		case <-ctx.Done():
		case <-a.wake:
		case <-time.After(time.Until(turn)):
		}
	}
	return nil
}
