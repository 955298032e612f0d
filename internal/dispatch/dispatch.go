package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	receivers "notifier/internal/health"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Store is what dispatch needs of Redis.
type Store interface {
	ClaimKeys(ctx context.Context, p keys.Partition, lease store.Lease, ks []string) (store.Claimed, error)
	Sweep(ctx context.Context, p keys.Partition, lease store.Lease, o store.SweepOptions) (store.Claimed, error)
	TakeOver(ctx context.Context, p keys.Partition, lease store.Lease, o store.TakeOverOptions) (store.Claimed, error)
	ClaimPostponed(ctx context.Context, p keys.Partition, lease store.Lease, list []store.Postponed) (store.Claimed, error)
	Recover(ctx context.Context, p keys.Partition, lease store.Lease, n int, ago time.Duration) (store.Claimed, error)
	Settle(ctx context.Context, p keys.Partition, list []store.Settlement) ([]store.Settled, error)
	Touch(ctx context.Context, keys []string) (store.Touched, error)
}

// Handler makes one attempt. It must return soon after the route's timeout, which it
// keeps by itself, and soon after ctx ends, which is when this process stops: the
// lease is [route.Margin] longer than the timeout and is not renewed, so that beside a
// handler which goes on after that, another may begin on the same notice in another
// process.
type Handler interface {
	Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result
}

// Fleet is what dispatch needs to know of this instance among others.
type Fleet interface {
	// ClaimID begins, with a '-', the token of each claim.
	ClaimID() string
	// MayStart reports whether a handler may start for a claim with that token:
	// not if others may have taken it over.
	MayStart(token string) bool
}

// alone is a Fleet of one whose claims nobody takes over.
type alone string

func (a alone) ClaimID() string      { return string(a) }
func (a alone) MayStart(string) bool { return true }

// maxBatch is the most one claim or settle call carries; maxCalls is how many such
// calls of one route may be under way at once, so that Redis works while this
// process does. The second of a kind waits until it has so many notices to bring:
// a call costs as much as some ten notices in it, and while there is one under
// way, nothing is idle. Nobody waits for a settle, so it waits for more.
const (
	maxBatch       = 128
	maxCalls       = 2
	claimBatchMin  = 32
	settleBatchMin = 64
)

// settleInterval is how long a settle may wait for others, so that the script calls
// of a steady load carry several each. What a process that is killed had ended and
// not settled comes again, so it is small beside the time of a callback. Of several
// instances, and of several shards, each has a part of the load and waits for as many
// times as long, with no more that waits; mostSettleIntervals bounds that.
const (
	settleInterval      = 4 * time.Millisecond
	mostSettleIntervals = 8
)

// Shards tells in which shard a notice is. [keys.Space] is one.
type Shards interface {
	Places() int
	Shard(key string) int
}

// Observer counts what happens. Its methods must be quick and safe for concurrent use.
type Observer interface {
	AttemptObserver
	Claim(source notice.Source, result notice.ClaimResult, n int)
	// Lateness is called when an exchange begins. Its span, and Handler's, is invalid if none is
	// recorded.
	Lateness(route string, source notice.Source, held notice.Held, late time.Duration, span trace.SpanContext)
	Handler(route string, took time.Duration, span trace.SpanContext)
	// Unsettled is called for n attempts whose settle failed and is retried.
	Unsettled(route string, n int)
}

// AttemptObserver counts the ends of attempts and of deferrals.
type AttemptObserver interface {
	Attempt(route string, o notice.Outcome, r notice.Reason)
}

// Strays takes the keys of hints that were no pending notice.
type Strays interface {
	Stale(r *route.Route, keys []string)
}

// silent is an Observer and Strays that does nothing.
type silent struct{}

func (silent) Claim(notice.Source, notice.ClaimResult, int)                                  {}
func (silent) Attempt(string, notice.Outcome, notice.Reason)                                 {}
func (silent) Lateness(string, notice.Source, notice.Held, time.Duration, trace.SpanContext) {}
func (silent) Handler(string, time.Duration, trace.SpanContext)                              {}
func (silent) Unsettled(string, int)                                                         {}
func (silent) Stale(*route.Route, []string)                                                  {}

// Options of a Dispatcher.
type Options struct {
	Store  Store
	Routes []*route.Route
	Shards Shards
	// Handler makes the attempts of all routes. One that is [Hosts] too limits the calls
	// to each host.
	Handler Handler
	Total   int           // slots over all routes
	Grace   time.Duration // of sweeps
	// SettleWait is how much longer than others a settle may take, because it waits
	// until it is confirmed.
	SettleWait time.Duration
	// Fleet may be nil: no other instance reclaims the claims of this process.
	Fleet Fleet
	// Health, if not nil, collects how receivers answer.
	Health *receivers.Tracker
	// Observer and Strays may be nil.
	Observer Observer
	Strays   Strays
	// Tracer makes the spans of attempts. Nil: there are none.
	Tracer trace.Tracer
	Logger *zap.Logger
	// LogAttempts chooses the attempts that are logged.
	LogAttempts notice.LogAttempts
}

// setDefaults puts parts that do nothing in place of those that are not given.
func (o *Options) setDefaults() {
	if o.Fleet == nil {
		o.Fleet = alone(strconv.FormatUint(rand.Uint64(), 36))
	}
	if o.Observer == nil {
		o.Observer = silent{}
	}
	if o.Strays == nil {
		o.Strays = silent{}
	}
}

// Dispatcher is safe for concurrent use.
type Dispatcher struct {
	o      Options
	log    attemptLog
	queues map[string]*routeQueue
	total  total
	tokens atomic.Uint64
	grace  atomic.Int64

	jobs chan job // to goroutines that wait for an attempt: see start

	// Handlers run under work, which ends when a shutdown has run out of time.
	work    context.Context // the life of all handlers, not of one call
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup // calls and attempts under way
	workers sync.WaitGroup
}

// ErrShutdown is the cause with which handlers are ended when a shutdown has
// run out of time.
var ErrShutdown = errors.New("shutting down")

// New makes a Dispatcher. It claims nothing until SetPaused has been called, and
// then what it is hinted or told to sweep.
func New(o Options) *Dispatcher {
	o.setDefaults()
	d := &Dispatcher{o: o, log: attemptLog{o.Observer, o.LogAttempts, o.Logger}, queues: map[string]*routeQueue{}}
	d.jobs = make(chan job)
	d.total.free = o.Total
	d.grace.Store(int64(o.Grace))
	d.work, d.cancel = context.WithCancelCause(context.Background())
	for _, r := range o.Routes {
		d.queues[r.Prefix] = newRouteQueue(d, r)
	}
	return d
}

// Hint says that the key of route r may be due. It never blocks; false means
// that there was no room and the hint is dropped.
func (d *Dispatcher) Hint(r *route.Route, key string) bool {
	q := d.queues[r.Prefix]
	return q != nil && q.hint(key, triggerHint)
}

// Expired is Hint for an expired event.
func (d *Dispatcher) Expired(r *route.Route, key string) bool {
	q := d.queues[r.Prefix]
	return q != nil && q.hint(key, triggerEvent)
}

// Sweep asks for the overdue notices of a partition to be claimed as slots
// allow. It never blocks.
func (d *Dispatcher) Sweep(p keys.Partition) {
	if q := d.queues[p.Prefix]; q != nil {
		q.askSweep(p.Shard, wantOverdue)
	}
}

// SweepDue is Sweep without the grace: for what this instance had no room to
// be hinted at.
func (d *Dispatcher) SweepDue(p keys.Partition) {
	if q := d.queues[p.Prefix]; q != nil {
		q.askSweep(p.Shard, wantDue)
	}
}

// TakeOver has what an instance that is surely dead has claimed of a partition
// claimed anew, as slots allow: all its claims' tokens begin with holder and a
// '-'. It never blocks.
func (d *Dispatcher) TakeOver(holder string, p keys.Partition) {
	if q := d.queues[p.Prefix]; q != nil {
		q.askTakeover(takeover{holder: holder, shard: p.Shard})
	}
}

// Room is how many more notices of a partition could begin now.
func (d *Dispatcher) Room(p keys.Partition) int {
	q := d.queues[p.Prefix]
	if q == nil {
		return 0
	}
	return min(q.room(p.Shard), d.total.room())
}

// Awake lets claims and settles that failed be made again at once: a node that did
// not answer has come back.
func (d *Dispatcher) Awake() {
	for _, q := range d.queues {
		q.awake()
	}
}

// SetGrace changes the grace of sweeps: with no events to wait for, it is 0.
func (d *Dispatcher) SetGrace(g time.Duration) { d.grace.Store(int64(g)) }

// SetSlots changes how many attempts of a route may be under way at once, which is
// Slots of the route at first. With 0, all its notices are left to other instances.
func (d *Dispatcher) SetSlots(prefix string, n int) {
	if q := d.queues[prefix]; q != nil {
		q.setSlots(n)
	}
}

// SetParts says into how many parts a route's load falls: living instances, this one
// included, times shards, former ones not included, since they have little left.
func (d *Dispatcher) SetParts(n int) {
	for _, q := range d.queues {
		q.setParts(n)
	}
}

// Grow makes room for more shards; it is called before their first notice comes.
// Nothing is claimed of them until SetPaused has been called.
func (d *Dispatcher) Grow(shards int) {
	for _, q := range d.queues {
		q.grow(shards)
	}
}

// SetPaused says of which partitions nothing is claimed.
func (d *Dispatcher) SetPaused(paused func(p keys.Partition) bool) {
	for _, q := range d.queues {
		q.setPaused(paused)
	}
}

// InFlight is how many attempts of a route are under way, settles included.
func (d *Dispatcher) InFlight(prefix string) int {
	q := d.queues[prefix]
	if q == nil {
		return 0
	}
	return q.running()
}

// Drain stops claiming, lets running handlers finish until ctx ends, then ends
// them with ErrShutdown, and returns when all is settled, or flush after ctx's
// end. What was claimed and not begun is given back at once. The number is how
// many attempts could not be settled; their leases lapse.
func (d *Dispatcher) Drain(ctx context.Context, flush time.Duration) int {
	for _, q := range d.queues {
		q.close()
		for _, l := range q.shards.all() {
			l.settles.SetInterval(0)
		}
	}
	done := make(chan struct{})
	go func() {
		d.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		d.cancel(ErrShutdown)
		select {
		case <-done:
		case <-time.After(flush):
		}
	}
	left := 0
	for _, q := range d.queues {
		q.abandon()
		left += q.running()
	}
	d.cancel(ErrShutdown)
	if left == 0 {
		<-done
		d.workers.Wait()
		for _, q := range d.queues {
			for _, l := range q.shards.all() {
				l.settles.Wait()
			}
		}
	}
	return left
}

func (d *Dispatcher) token() string {
	return d.o.Fleet.ClaimID() + "-" + strconv.FormatUint(d.tokens.Add(1), 36)
}
