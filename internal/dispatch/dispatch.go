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

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Store is the set of Redis operations that dispatch uses.
type Store interface {
	ClaimKeys(ctx context.Context, p keys.Partition, lease store.Lease, ks []string) (store.Claimed, error)
	Sweep(ctx context.Context, p keys.Partition, lease store.Lease, o store.SweepOptions) (store.Claimed, error)
	TakeOver(ctx context.Context, p keys.Partition, lease store.Lease, o store.TakeOverOptions) (store.Claimed, error)
	ClaimPostponed(ctx context.Context, p keys.Partition, lease store.Lease, list []store.Postponed) (store.Claimed, error)
	Recover(ctx context.Context, p keys.Partition, lease store.Lease, n int, ago time.Duration) (store.Claimed, error)
	Settle(ctx context.Context, p keys.Partition, list []store.Settlement) ([]store.Settled, error)
}

// Timers makes Redis expire due timers.
type Timers interface {
	Touch(ctx context.Context, keys []string) (store.Touched, error)
}

// Handler delivers notices, for example by an HTTP request. Handle makes one attempt and returns its result. It must
// apply the route's timeout itself, and return soon after that timeout or the end of ctx. If it still runs one second
// after the timeout, another process may soon start a second attempt for the same notice.
type Handler interface {
	Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result
}

// Fleet describes this instance to dispatch.
type Fleet interface {
	// ClaimID is the prefix of the token of each claim, before a '-'.
	ClaimID() string
	// MayStart reports whether a handler may start for a claim with that token. It is false if
	// other instances may have reclaimed the claim.
	MayStart(token string) bool
	// Lost reports whether other instances have declared this one dead since the claim with that token. It does not
	// change back.
	Lost(token string) bool
}

// Vault opens sealed notices, and seals the answers to their attempts. *[vault.Vault] is one.
type Vault interface {
	// OpenFor returns the content of a sealed notice, and the function that seals the answer to its attempt.
	OpenFor(ctx context.Context, shard int, n *notice.Notice) (c notice.Content, answer func(string) (string, error), err error)
	// SealAnswer seals an answer with the data key of a sealed notice.
	SealAnswer(ctx context.Context, shard int, n *notice.Notice, answer string) (string, error)
	// CheckForgotten returns an error if the subject of a sealed text was forgotten. It needs no service key.
	CheckForgotten(ctx context.Context, shard int, sealed string) error
}

// Holds knows which receivers are paused. *[receivers.Holds] is one.
type Holds interface {
	// Held returns the pause that holds a notice at a time of Redis's clock, and when the notice is claimed again. ok is
	// false if its receiver is not paused.
	Held(r *route.Route, n *notice.Notice, now time.Time) (pause string, until time.Time, ok bool)
}

// alone is a Fleet of one instance, whose claims are never reclaimed.
type alone string

func (a alone) ClaimID() string      { return string(a) }
func (a alone) MayStart(string) bool { return true }
func (a alone) Lost(string) bool     { return false }

// Limits of the calls to Redis that claim notices or settle them (store their results).
const (
	// maxBatch is the maximum number of notices in one call.
	maxBatch = 128
	// maxCalls is how many calls of one kind usually run at once: claims of hinted keys and other claims in a route,
	// settles in a shard of a route.
	maxCalls = 2
	// A second concurrent call usually needs this number of notices, because the fixed cost of a call is about that of
	// ten notices.
	claimBatchMin  = 32
	settleBatchMin = 64
)

// settleInterval is the usual minimum time between two calls that store results of the same route and shard in Redis.
// The wait lets one call store several results. It is short, because an attempt is repeated if the process dies before
// its result is stored. With several instances or shards it is up to mostSettleIntervals times as long.
const (
	settleInterval      = 4 * time.Millisecond
	mostSettleIntervals = 8
)

// Shards returns the shard of a key. [keys.Space] implements it.
type Shards interface {
	Places() int
	Shard(key string) int
}

// Observer counts claims and attempts. Its methods must be quick and safe for concurrent use.
type Observer interface {
	AttemptObserver
	Claim(source notice.Source, result notice.ClaimResult, n int)
	// Lateness is called when an exchange begins: a request to the receiver, or a push. late is the time since the
	// notice was due, and held is the cause of its longest delay. The span of Lateness and Handler is invalid if it is
	// not recorded.
	Lateness(route string, source notice.Source, held notice.Held, late time.Duration, span trace.SpanContext)
	Handler(route string, took time.Duration, span trace.SpanContext)
	// Unsettled is called for n attempts whose settle failed and is retried.
	Unsettled(route string, n int)
}

// AttemptObserver counts the ends of attempts and of deferrals.
type AttemptObserver interface {
	Attempt(route string, o notice.Outcome, r notice.Reason)
}

// Strays receives the keys of hints for which no notice was pending.
type Strays interface {
	Stale(r *route.Route, keys []string)
}

// nop is an Observer and Strays that does nothing.
type nop struct{}

func (nop) Claim(notice.Source, notice.ClaimResult, int)                                  {}
func (nop) Attempt(string, notice.Outcome, notice.Reason)                                 {}
func (nop) Lateness(string, notice.Source, notice.Held, time.Duration, trace.SpanContext) {}
func (nop) Handler(string, time.Duration, trace.SpanContext)                              {}
func (nop) Unsettled(string, int)                                                         {}
func (nop) Stale(*route.Route, []string)                                                  {}

// Options configures a Dispatcher.
type Options struct {
	Store  Store
	Timers Timers
	Routes []*route.Route
	Shards Shards
	// Handler makes the attempts of all routes. If it also implements [Hosts], it limits the calls
	// to each host.
	Handler Handler
	Total   int           // slots over all routes
	Grace   time.Duration // of sweeps
	// SettleWait is added to the timeout of a settle, for the time until it is confirmed.
	SettleWait time.Duration
	// Fleet is nil if no other instance reclaims the claims of this process.
	Fleet Fleet
	// Holds may be nil.
	Holds Holds
	// ForWorkers reports whether this instance must not deliver a notice that it has claimed in a route, because the notice
	// belongs to a route of other instances. It may be nil.
	ForWorkers func(r *route.Route, key string) bool
	// Redirect changes the addresses of claimed notices by the rules of their claim. It may be nil.
	Redirect func(*store.Claimed)
	// Vault opens sealed notices and seals answers to them; nil = there are none.
	Vault Vault
	// Health records the answers of receivers, unless it is nil.
	Health *receivers.Tracker
	// Rules pauses receivers by their answers, unless it is nil.
	Rules *receivers.Rules
	// Observer and Strays may be nil.
	Observer Observer
	Strays   Strays
	// Tracer creates the spans of attempts, unless it is nil.
	Tracer trace.Tracer
	Logger *zap.Logger
	// LogAttempts selects the attempts that are logged.
	LogAttempts notice.LogAttempts
}

// setDefaults replaces omitted options by implementations that do nothing.
func (o *Options) setDefaults() {
	if o.Fleet == nil {
		o.Fleet = alone(strconv.FormatUint(rand.Uint64(), 36))
	}

	if o.Observer == nil {
		o.Observer = nop{}
	}

	if o.Strays == nil {
		o.Strays = nop{}
	}
}

// Dispatcher claims due notices, runs their handlers and settles the results. It is safe for
// concurrent use.
type Dispatcher struct {
	o      Options
	log    attemptLog
	queues map[string]*readyQueue
	total  total
	tokens atomic.Uint64
	grace  atomic.Int64

	shortages       *shortages
	claims, settles pace.Loops // failed calls, of all routes and shards

	jobs chan job // to goroutines that wait for an attempt: see start

	// work is the context of all handlers. It ends when a shutdown has run out of time.
	work    context.Context // the life of all handlers, not of one call
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup // calls and attempts under way
	workers sync.WaitGroup
}

// ErrShutdown is the cancellation cause of handlers that still run when a shutdown has run out of
// time.
var ErrShutdown = errors.New("shutting down")

// New returns a Dispatcher. It claims nothing until SetPaused has been called.
func New(o Options) *Dispatcher {
	o.setDefaults()
	d := &Dispatcher{o: o, log: attemptLog{o.Observer, o.LogAttempts, o.Logger}, queues: map[string]*readyQueue{}}
	d.jobs, d.shortages = make(chan job), newShortages(o.Logger)
	d.total.free = o.Total
	d.grace.Store(int64(o.Grace))
	d.work, d.cancel = context.WithCancelCause(context.Background())
	for _, r := range o.Routes {
		d.queues[r.Prefix] = newReadyQueue(d, r)
	}

	return d
}

// Hint reports that a key of route r may be due. It never blocks, and returns false if the hint was
// dropped for lack of room.
func (d *Dispatcher) Hint(r *route.Route, key string) bool {
	q := d.queues[r.Prefix]
	return q != nil && q.hint(key, triggerHint)
}

// Expired is Hint for an expired event.
func (d *Dispatcher) Expired(r *route.Route, key string) bool {
	q := d.queues[r.Prefix]
	return q != nil && q.hint(key, triggerEvent)
}

// HintFirst is Hint for first attempts of a partition that are due while others wait for slots: they are claimed before those.
func (d *Dispatcher) HintFirst(p keys.Partition, keys []string) {
	if q := d.queues[p.Prefix]; q != nil {
		q.hintFirst(p.Shard, keys)
	}
}

// Sweep requests a claim of the partition's overdue notices. It never blocks.
func (d *Dispatcher) Sweep(p keys.Partition) {
	if q := d.queues[p.Prefix]; q != nil {
		q.askSweep(p.Shard, wantOverdue)
	}
}

// SweepDue is Sweep without the grace, for notices whose hints were dropped.
func (d *Dispatcher) SweepDue(p keys.Partition) {
	if q := d.queues[p.Prefix]; q != nil {
		q.askSweep(p.Shard, wantDue)
	}
}

// TakeOver reclaims the claims of a dead instance in a partition, as slots become free. The tokens
// of these claims begin with holder and a '-'. It never blocks.
func (d *Dispatcher) TakeOver(holder string, p keys.Partition) {
	if q := d.queues[p.Prefix]; q != nil {
		q.askTakeover(takeover{holder: holder, shard: p.Shard})
	}
}

// Room returns how many more notices of a partition can start now.
func (d *Dispatcher) Room(p keys.Partition) int {
	q := d.queues[p.Prefix]
	if q == nil {
		return 0
	}

	return min(q.room(p.Shard), d.total.room())
}

// Awake retries failed claims and settles at once, because a node is reachable again.
func (d *Dispatcher) Awake() {
	for _, q := range d.queues {
		q.shards.awake()
	}
}

// SetGrace changes the grace of sweeps. It is 0 without expired events.
func (d *Dispatcher) SetGrace(g time.Duration) { d.grace.Store(int64(g)) }

// SetSlots changes the number of concurrent attempts of a route, initially the route's Slots. With
// 0, other instances handle all its notices.
func (d *Dispatcher) SetSlots(prefix string, n int) {
	if q := d.queues[prefix]; q != nil {
		q.setSlots(n)
	}
}

// SetParts sets the number of parts into which a route's load is divided: live instances, including
// this one, times current shards. Old shards do not count, because few notices are left in them.
func (d *Dispatcher) SetParts(n int) {
	for _, q := range d.queues {
		q.setParts(n)
	}
}

// Grow adds shards. It must be called before their first notice, and nothing is claimed from them
// until SetPaused has been called.
func (d *Dispatcher) Grow(shards int) {
	for _, q := range d.queues {
		q.grow(shards)
	}
}

// SetPaused sets the paused partitions, from which nothing is claimed.
func (d *Dispatcher) SetPaused(paused func(p keys.Partition) bool) {
	for _, q := range d.queues {
		q.setPaused(paused)
	}
}

// Paused reports whether nothing is claimed from a partition, because it is paused or that is not known yet.
func (d *Dispatcher) Paused(p keys.Partition) bool {
	q := d.queues[p.Prefix]
	return q == nil || q.paused(p.Shard)
}

// InFlight returns the number of attempts of a route that are not settled yet.
func (d *Dispatcher) InFlight(prefix string) int {
	q := d.queues[prefix]
	if q == nil {
		return 0
	}

	return q.running()
}

// Drain stops claiming, and waits until running handlers have ended and their results are stored in Redis. When ctx
// ends, it cancels the handlers with ErrShutdown, and waits at most flush longer. It returns the number of attempts
// whose results were not stored. Their notices may be delivered again when the leases of the claims expire.
func (d *Dispatcher) Drain(ctx context.Context, flush time.Duration) int {
	for _, q := range d.queues {
		q.close() // also releases claims whose attempts have not started
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
		q.attempts.abandon()
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
