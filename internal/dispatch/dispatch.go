// Package dispatch claims due notices, runs their handlers and settles what
// came of them.
//
// # Slots
//
// Each route has a number of slots, and there is a number in total. A slot is
// taken before a claim is asked for and freed when the handler has returned, or
// when the attempt is settled once some hundreds wait for that, so what this
// process holds is bounded, and a saturated route neither claims what
// it cannot begin nor keeps others from their slots beyond the total. When the
// total is used up, what comes free goes first to the waiting route that holds
// the least of it: one with a backlog cannot keep it all to itself.
//
// Nothing is claimed before SetPaused has been called once: a route that was
// paused stays so while an instance starts.
//
// # Two ways to a claim
//
// A hint is a key that just expired: it is claimed by name. A sweep claims
// whatever is overdue. Hints are dropped when there is no room for them; the
// sweep finds those notices later. Sweeps leave a quarter of a route's slots to
// hints, as long as some come, and a quarter is theirs though hints come without
// end: neither way waits for the other. A backlog is swept from its oldest and its
// newest end in turn, so that a burst for one destination does not hold up
// what fell due after it.
//
// # What may be doubled
//
// A notice is handled again only if this process dies, or loses Redis for a
// whole lease, between the handler's success and the settle. While a settle
// fails, it is repeated until Redis answers, and the route claims nothing.
//
// # What is lost with an instance
//
// An attempt that was claimed and never settled counts as one, as interrupted:
// a notice that kills its process must not do so for ever. But it may never
// have been begun, since a claim call whose answer is lost leaves the same
// trace. So some such attempts are granted beyond the ladder, and a notice
// without a ladder is not dead because Redis was slow once.
package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Store is what dispatch needs of Redis.
type Store interface {
	ClaimKeys(ctx context.Context, prefix string, shard int, token string, lease time.Duration, keys []string) (store.Claimed, error)
	Sweep(ctx context.Context, prefix string, shard int, token string, lease, grace time.Duration, n int, newest bool) (store.Claimed, error)
	Recover(ctx context.Context, prefix string, shard int, token string, lease time.Duration, n int, ago time.Duration) (store.Claimed, error)
	Settle(ctx context.Context, prefix string, shard int, list []store.Settlement) ([]store.Settled, error)
	Touch(ctx context.Context, keys []string) (int, error)
}

// Handler makes one attempt. It must return soon after ctx ends.
type Handler interface {
	Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result
}

// Observer hears what happens; see package metrics. All methods must be quick
// and safe for concurrent use.
type Observer interface {
	Claims(source, result string, n int)
	Attempt(route string, o notice.Outcome, r notice.Reason)
	Lateness(route, source string, d time.Duration)
	HandlerTime(route string, d time.Duration)
	Unsettled(route string, n int)
}

// Sources of a claim, for metrics and logs.
const (
	SourceEvent = "event"
	SourceSweep = "sweep"
)

// batch is the most one claim or settle call carries; senders is how many such
// calls of one route may be under way at once, so that Redis works while this
// process does. The second of a kind waits until it has company to bring: a call
// costs as much as some ten notices in it, and while there is one under way,
// nothing is idle.
const (
	batch   = 128
	senders = 2
	company = 32
	// Nobody waits for a settle.
	settleCompany = 64
)

// Options of a Dispatcher.
type Options struct {
	Store    Store
	Routes   []*route.Route
	Shards   int
	Shard    func(key string) int
	Handler  func(*route.Route) Handler
	Total    int           // slots over all routes
	Instance string        // begins each claim's token
	Grace    time.Duration // of sweeps
	Observer Observer
	Logger   *zap.Logger
	// Stale, if not nil, hears keys of hints that were no pending notice.
	Stale func(r *route.Route, keys []string)
}

// Dispatcher is safe for concurrent use.
type Dispatcher struct {
	o      Options
	lanes  map[string]*lane
	tokens atomic.Uint64
	// tokenPrefix is this process's own, even if two were given one name.
	tokenPrefix string
	grace       atomic.Int64

	jobs chan job // to goroutines that wait for an attempt: see start

	// Handlers run under work, which ends when a shutdown has run out of time.
	work   context.Context //nolint:containedctx // the life of all handlers, not of one call
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	total   int
	waiting []*lane
}

// ErrShutdown is the cause with which handlers are ended when a shutdown has
// run out of time.
var ErrShutdown = errors.New("shutting down")

// New makes a Dispatcher. It claims nothing until SetPaused has been called, and
// then what it is hinted or told to sweep.
func New(o Options) *Dispatcher {
	d := &Dispatcher{o: o, tokenPrefix: o.Instance + "-" + strconv.FormatUint(rand.Uint64(), 36) + "-", lanes: map[string]*lane{}, total: o.Total}
	d.jobs = make(chan job)
	d.grace.Store(int64(o.Grace))
	d.work, d.cancel = context.WithCancelCause(context.Background())
	for _, r := range o.Routes {
		d.lanes[r.Prefix] = newLane(d, r)
	}
	return d
}

// Hint says that the key of route r may be due. It never blocks; false means
// that there was no room and the hint is dropped.
func (d *Dispatcher) Hint(r *route.Route, key string) bool {
	l := d.lanes[r.Prefix]
	return l != nil && l.hint(key)
}

// Sweep asks for the overdue notices of a route and shard to be claimed as
// slots allow. It never blocks.
func (d *Dispatcher) Sweep(prefix string, shard int) {
	if l := d.lanes[prefix]; l != nil {
		l.askSweep(shard, needRipe)
	}
}

// SweepDue is Sweep without the grace: for what this instance had no room to
// be hinted at.
func (d *Dispatcher) SweepDue(prefix string, shard int) {
	if l := d.lanes[prefix]; l != nil {
		l.askSweep(shard, needDue)
	}
}

// Room is how many more notices of a route could begin now.
func (d *Dispatcher) Room(prefix string) int {
	l := d.lanes[prefix]
	if l == nil {
		return 0
	}
	d.mu.Lock()
	total := d.total
	d.mu.Unlock()
	return min(l.room(), total)
}

// SetGrace changes the grace of sweeps: with no events to wait for, it is 0.
func (d *Dispatcher) SetGrace(g time.Duration) { d.grace.Store(int64(g)) }

// SetPaused says which routes claim nothing.
func (d *Dispatcher) SetPaused(paused func(prefix string) bool) {
	for prefix, l := range d.lanes {
		l.setPaused(paused(prefix))
	}
}

// InFlight is how many attempts of a route are under way, settles included.
func (d *Dispatcher) InFlight(prefix string) int {
	l := d.lanes[prefix]
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// Drain stops claiming, lets running handlers finish until ctx ends, then ends
// them with ErrShutdown, and returns when all is settled, or flush after ctx's
// end. What was claimed and not begun is given back at once. The number is how
// many attempts could not be settled; their leases lapse.
func (d *Dispatcher) Drain(ctx context.Context, flush time.Duration) int {
	for _, l := range d.lanes {
		l.close()
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
	for _, l := range d.lanes {
		l.abandon()
		l.mu.Lock()
		left += l.running
		l.mu.Unlock()
	}
	d.cancel(ErrShutdown)
	if left == 0 {
		<-done
	}
	return left
}

func (d *Dispatcher) token() string {
	return d.tokenPrefix + strconv.FormatUint(d.tokens.Add(1), 36)
}

// take takes up to n of the total's slots; a lane that gets fewer than it wants
// is pumped when some come free.
func (d *Dispatcher) take(l *lane, n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	got := min(n, d.total)
	d.total -= got
	l.held += got
	if got < n {
		for _, w := range d.waiting {
			if w == l {
				return got
			}
		}
		d.waiting = append(d.waiting, l)
	}
	return got
}

// give returns a lane's slots to the total and hands back who waited for some,
// those that hold the fewest first.
func (d *Dispatcher) give(l *lane, n int) []*lane {
	if n == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total += n
	l.held -= n
	w := d.waiting
	d.waiting = nil
	slices.SortStableFunc(w, func(a, b *lane) int { return a.held - b.held })
	return w
}
