package intake

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/store"
)

// AdopterStore is the set of Redis operations that adoption uses.
type AdopterStore interface {
	Peek(ctx context.Context, p keys.Partition, ks []string, maxBody int64) (now time.Time, seen []Seen, looked int, err error)
	PeekTimers(ctx context.Context, ks []string, maxBody int64) ([]Seen, error)
	Adopt(ctx context.Context, p keys.Partition, list []Adoption) ([]bool, error)
	Where(ctx context.Context, ks []string) ([]int, error)
	Stranded(ctx context.Context, ks []string) ([]bool, error)
	Unknown(ctx context.Context, p keys.Partition, ks []string, late time.Duration) (none, old []string, err error)
	Schedule(ctx context.Context, p keys.Partition, reqs []store.Request) ([]store.Reply, error)
	Strays(ctx context.Context, p keys.Partition, cursor string) (ks []string, next string, err error)
	StraysDue(ctx context.Context, p keys.Partition, within time.Duration) (ks []string, next time.Duration, err error)
	Evicts(ctx context.Context) (bool, error)
	Timers(ctx context.Context, masters func(context.Context, func(context.Context, redis.Cmdable) error) error, pattern string, n int64,
		f func(ctx context.Context, ks []string) error) error
}

// Cluster gives access to the masters of a cluster.
type Cluster interface {
	// Masters calls f for each master.
	Masters(ctx context.Context, f func(ctx context.Context, c redis.Cmdable) error) error
	// Master returns the address of the master of a key.
	Master(ctx context.Context, key string) string
}

// AdopterObserver counts the adopted notices of a route, and those without a body.
type AdopterObserver interface {
	Scheduled(route string, n int)
	BodiesLost(route string, n int)
}

// Events reports whether keyspace events arrive. If not, all keys are scanned every second.
type Events interface{ Adopting() bool }

// silent is an AdopterObserver that does nothing, and an Events that always arrive.
type silent struct{}

func (silent) Scheduled(string, int)  {}
func (silent) BodiesLost(string, int) {}
func (silent) Adopting() bool         { return true }

// AdopterOptions configures an Adopter.
type AdopterOptions struct {
	Store   AdopterStore
	Routes  *route.Table
	Space   keys.Space
	Cluster Cluster // nil outside a cluster
	// MaxBody is the maximum length of an adopted payload.
	MaxBody int64
	// Observer may be nil.
	Observer AdopterObserver
	// Every is the interval of scans without a reason; zero = 1 m. It is longer if a scan takes
	// long: see scanShare.
	Every time.Duration
	// Events may be nil, if events always arrive.
	Events Events
	// Confirm is how long to wait for the event that says why a timer is missing; zero = 250 ms.
	Confirm time.Duration
	Logger  *zap.Logger
}

// Adopter turns plain timers into notices. Event and Scan may be called by any goroutine and never
// block; one goroutine runs Run.
type Adopter struct {
	o        AdopterOptions
	prefixes []string // of all routes that adopt

	wake    chan struct{}
	mu      sync.Mutex
	pending map[string]eventSet // keys to check
	held    map[string]eventSet // keys on cluster nodes that do not answer, to be checked again from until on
	until   time.Time
	scan    bool
	second  []secondLook         // earliest first
	first   map[string]firstLook // of the keys in second
	dropped int                  // expired keys dropped for lack of room

	payloads payloads

	// Used by Run only.
	evicts  bool      // Redis may evict: a missing timer was not necessarily deleted
	compare time.Time // next comparison of timers with notices due soon
}

// The bounds of memory and of one call. Expired keys have separate room, since a scan does not find
// a dropped one.
const (
	maxPending        = 1 << 16
	maxPendingExpired = 1 << 18
	batch             = 48 // no call blocks Redis for longer than about half a millisecond
	scanBatch         = 500
	callLimit         = 5 * time.Second
	callLimitApart    = time.Second // in a cluster: other nodes wait for it
	everyBlind        = time.Second // between scans if no events arrive
	// late is how long after the end of its notice a timer's event may still arrive. Timers are
	// touched when their notices are claimed, so in practice it is seconds.
	late = 5 * time.Minute
)

// NewAdopter returns an Adopter. It does nothing if no route adopts.
func NewAdopter(o AdopterOptions) *Adopter {
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

	a := &Adopter{o: o, wake: make(chan struct{}, 1), pending: map[string]eventSet{}, held: map[string]eventSet{},
		first: map[string]firstLook{}}
	for _, r := range o.Routes.All() {
		if r.Adopt && !slices.ContainsFunc(o.Routes.All(), func(b *route.Route) bool { return b.Adopt && keys.HasPrefix(r.Prefix, b.Prefix) }) {
			a.prefixes = append(a.prefixes, r.Prefix)
		}
	}

	return a
}

// Event processes a keyspace event of a key of an adopting route.
func (a *Adopter) Event(_ *route.Route, key, event string) {
	if t, ok := readEvent(event); ok {
		a.note(key, t)
	}
}

// Stale processes keys whose expired events led to no claim. If the notice is pending for later,
// its client has shortened the timer, which expired before it was checked: the notice is due now.
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

// Follow checks the timers of keys at once, so that a client's SET is adopted before a call of the
// API on the same key. It skips keys of routes that do not adopt.
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

// FollowEach is Follow with a separate error for each key.
func (a *Adopter) FollowEach(ctx context.Context, ks []string) map[string]error {
	if !a.Adopts() {
		return nil
	}

	some := map[string]eventSet{}
	for _, k := range ks {
		some[k] = eventSet{asked: true}
	}

	failed, _ := a.followKeys(ctx, some) // each has its own error
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

	again := pace.Loop{Min: 40 * time.Millisecond, Max: time.Second, Logger: a.o.Logger,
		Failure: "adoption failed, retrying", Recovered: "adopting again"}
	next := time.Now().Add(a.o.Every)
	for ctx.Err() == nil {
		err := a.work(ctx, &next)
		if err != nil && ctx.Err() == nil {
			pause := again.Fail(err)
			if a.o.Cluster == nil {
				pace.Wait(ctx, pause)
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

// work makes one turn: it adopts the timers whose events have come, looks again where that is due,
// and scans if next has come, which it moves.
func (a *Adopter) work(ctx context.Context, next *time.Time) error {
	for _, step := range []func(context.Context) error{a.Drain, a.lookAgain, a.compareDue} {
		if err := step(ctx); err != nil {
			return err
		}
	}

	if !a.scanDue(next) {
		return nil
	}

	from := time.Now()
	err := a.Look(ctx)
	if err != nil && a.o.Cluster == nil {
		a.Scan() // in a cluster the next turn, or the subscription at the node that is back, does
	}

	if later := time.Now().Add(scanShare * time.Since(from)); later.After(*next) {
		*next = later
	}

	return err
}
