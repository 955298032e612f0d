package replay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/tracing"
	"notifier/internal/wire"
)

// Journal is the set of database operations that a Driver uses.
type Journal interface {
	TakeReplay(ctx context.Context, driver string, hold time.Duration, except []string) (history.Replay, bool, error)
	KeepReplay(ctx context.Context, r *history.Replay, driver string, hold time.Duration) (bool, error)
	LeaveReplay(ctx context.Context, id, driver string) error
	EndReplay(ctx context.Context, r *history.Replay, driver string) error
	ReplayItems(ctx context.Context, id string, after int64, n int) ([]history.ReplayItem, error)
}

// Sender is the set of Redis operations that a Driver uses.
type Sender interface {
	Replay(ctx context.Context, r Part, items []Item) ([]Answer, error)
	ReplayCounts(ctx context.Context, mark string) (map[string]int64, error)
	// CameSince reports whether a migration to this Redis began after a time.
	CameSince(at time.Time) bool
}

// Options of a Driver.
type Options struct {
	Journal Journal
	Sender  Sender
	Routes  *route.Table
	Space   keys.Space
	// Observer may be nil.
	Observer Observer
	// Tracer makes a span of each batch that is sent. Nil: there are none.
	Tracer trace.Tracer
	Logger *zap.Logger
}

// Observer receives the results of items. It must not block.
type Observer interface {
	Replayed(result string)
}

// How a Driver goes about it.
const (
	holdFor    = 5 * time.Second
	lookEvery  = 2 * time.Second
	atOnce     = 4 // replays of one client that one instance drives
	batchFor   = time.Second
	batchItems = 500
	batchBytes = 1 << 20 // of bodies, in one call of the script
	leastWait  = 200 * time.Millisecond
	mostWait   = 5 * time.Second
)

// Driver sends what replays hold. Every instance with a history runs one.
type Driver struct {
	o     Options
	token string
	wake  chan struct{}

	mu      sync.Mutex
	driving map[string]int // replays, by client
}

// NewDriver makes a Driver. Run starts it.
func NewDriver(o Options) *Driver {
	return &Driver{o: o, token: rand.Text(), wake: make(chan struct{}, 1), driving: map[string]int{}}
}

// Wake says that there may be something to drive. It does not block.
func (d *Driver) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run drives replays until ctx ends, and returns nil. Another instance, or the next start,
// continues them.
func (d *Driver) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		for d.take(ctx, &wg) {
		}

		look := time.NewTimer(lookEvery + mathrand.N(lookEvery/4))
		select {
		case <-ctx.Done():
			look.Stop()
			return nil
		case <-d.wake:
			look.Stop()
		case <-look.C:
		}
	}
}

// take starts to drive a replay without a driver, if there is one. Clients that have atOnce replays here wait, so that
// they do not delay the replays of others.
func (d *Driver) take(ctx context.Context, wg *sync.WaitGroup) bool {
	// Each drive has a unique token, so that a drive that has lost its lease cannot renew that of
	// its successor.
	token := d.token + ":" + rand.Text()[:8]
	r, ok, err := d.o.Journal.TakeReplay(ctx, token, holdFor, d.busy())
	if err != nil && ctx.Err() == nil {
		d.o.Logger.Debug("cannot read the replays, retrying", zap.Error(err))
	}

	if !ok || err != nil {
		return false
	}

	d.drives(r.Client, 1)
	wg.Go(func() {
		defer func() { d.drives(r.Client, -1); d.Wake() }()
		(&drive{Driver: d, r: r, as: token}).run(ctx)
	})
	return true
}

// busy returns the clients that have atOnce replays here.
func (d *Driver) busy() (clients []string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	for client, n := range d.driving {
		if n >= atOnce {
			clients = append(clients, client)
		}
	}

	return clients
}

// drives counts the replays of a client that this instance drives.
func (d *Driver) drives(client string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if d.driving[client] += n; d.driving[client] == 0 {
		delete(d.driving, client)
	}
}

// drive is the driving of one replay.
type drive struct {
	*Driver
	r     history.Replay
	as    string
	again pace.Loop
}

func (d *drive) run(ctx context.Context) {
	log := d.o.Logger.With(zap.String("replay", d.r.Name))
	d.again = pace.Loop{Min: leastWait, Max: mostWait, Logger: log, Failure: "replay failed, retrying", Recovered: "replay works again"}
	if d.outdated(ctx) {
		return
	}

	log.Info("replaying", zap.Int64("done", d.r.Done), zap.Int64("total", d.r.Total))
	next := time.Now()
	for !d.outdated(ctx) {
		n, err := d.batch(ctx)
		if d.over(ctx, n, err, log) {
			return
		}

		if err != nil {
			// Send the same batch again, if this driver still has the replay.
			if d.again.Wait(ctx, err) && !d.keeps(ctx) {
				return
			}
			continue
		}

		d.again.Succeed()
		if !d.keeps(ctx) {
			log.Info("the replay was stopped, or is driven by another instance", zap.Int64("done", d.r.Done))
			return
		}

		// A late batch is not followed by a burst.
		next = later(next.Add(time.Duration(float64(n)/d.r.Rate*float64(time.Second))), time.Now().Add(-batchFor))
		if !d.rest(ctx, time.Until(next)) {
			return
		}
	}
}

// over reports whether the replay ends, or ends here, after a batch of n notices. It records the end.
func (d *drive) over(ctx context.Context, n int, err error, log *zap.Logger) bool {
	switch {
	case ctx.Err() != nil:
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = d.o.Journal.LeaveReplay(last, d.r.ID, d.as) // otherwise the lease expires
	case errors.Is(err, wire.ErrMoved):
		d.fail(ctx, "notices are being moved to another Redis, or from it: "+anew)
	case err == nil && n == 0:
		if d.end(ctx, history.ReplayDone, "") {
			log.Info("replayed", zap.Any("counts", d.r.Counts))
		}
	default:
		return false
	}
	return true
}

// keeps renews the lease, and returns false if another driver has the replay or it was stopped.
func (d *drive) keeps(ctx context.Context) bool {
	ok, err := d.o.Journal.KeepReplay(ctx, &d.r, d.as, holdFor)
	return ok || err != nil
}

// anew is the end of the reason of a replay that failed because notices have moved.
const anew = "items that it has not sent by now need a new replay"

// outdated ends a replay that was made for other shards, or on another Redis: its progress
// is stored in each of those shards.
func (d *drive) outdated(ctx context.Context) bool {
	now := d.o.Space.Places()
	switch {
	case d.r.Shards != now:
		d.fail(ctx, fmt.Sprintf("the shards have changed since it was made (%d, and %d now, former ones included); %s", d.r.Shards, now, anew))
	case d.o.Sender.CameSince(d.r.Made):
		d.fail(ctx, "notices have moved to another Redis since it was made: "+anew)
	default:
		return false
	}

	return true
}

// rest waits and keeps the lease; it returns false if the lease is lost.
func (d *drive) rest(ctx context.Context, wait time.Duration) bool {
	for wait > 0 && ctx.Err() == nil {
		step := min(wait, holdFor/4)
		pace.Wait(ctx, step)
		if wait -= step; wait <= 0 {
			break
		}
		if ok, err := d.o.Journal.KeepReplay(ctx, &d.r, d.as, holdFor); err == nil && !ok {
			return false
		}
	}
	return true
}

// batch sends the items that are due within the next second, and returns their number.
func (d *drive) batch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, holdFor)
	defer cancel()
	n := min(max(int(d.r.Rate*batchFor.Seconds()), 1), batchItems)
	items, err := d.o.Journal.ReplayItems(ctx, d.r.ID, d.r.Done, n)
	if err != nil || len(items) == 0 {
		return 0, err
	}

	each := time.Duration(float64(time.Second) / d.r.Rate)
	shards := map[int][]Item{}
	for i := range items {
		it := &items[i]
		shards[it.Shard] = append(shards[it.Shard], item(d.o.Routes, &d.r, it, time.Duration(i)*each))
	}

	under, span := tracing.Step(ctx, d.o.Tracer, "replay", tracing.Replay.String(d.r.Name), tracing.Notices.Int(len(items)))
	err = d.sendAll(under, shards)
	tracing.End(span, err, "redis")
	if err != nil {
		return 0, err
	}

	counts, err := d.o.Sender.ReplayCounts(ctx, d.r.Mark())
	if err != nil {
		return 0, err
	}

	d.r.Done, d.r.Counts = items[len(items)-1].Number, counts
	return len(items), nil
}

// sendAll sends items by shard.
func (d *drive) sendAll(ctx context.Context, shards map[int][]Item) error {
	for shard, list := range shards {
		if err := d.send(ctx, shard, list); err != nil {
			return err
		}
	}
	return nil
}

// send sends items of one shard in calls that are bounded.
func (d *drive) send(ctx context.Context, shard int, list []Item) error {
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) && n < maxItems && (n == 0 || size < batchBytes) {
			if list[n].Notice != nil {
				size += len(list[n].Body)
			}
			n++
		}

		answers, err := d.o.Sender.Replay(ctx, Part{Mark: d.r.Mark(), Shard: shard, NewIDs: d.r.NewIDs}, list[:n])
		if d.o.Observer != nil {
			for _, a := range answers {
				if a.Result != "" {
					d.o.Observer.Replayed(a.Result)
				}
			}
		}

		if err != nil {
			return err
		}

		list = list[n:]
	}
	return nil
}

func (d *drive) fail(ctx context.Context, reason string) {
	if counts, err := d.o.Sender.ReplayCounts(ctx, d.r.Mark()); err == nil && len(counts) > 0 {
		d.r.Counts = counts // some items of the last batch may have been sent
	}
	if d.end(ctx, history.ReplayFailed, reason) {
		d.o.Logger.Error("a replay has failed", zap.String("replay", d.r.Name), zap.String("reason", reason))
	}
}

// end notes that it is over. If that cannot be written, its hold ends and the next
// driver finds nothing more to do.
func (d *drive) end(ctx context.Context, state history.ReplayState, reason string) bool {
	d.r.State, d.r.Reason = state, reason
	if err := d.o.Journal.EndReplay(ctx, &d.r, d.as); err != nil {
		d.o.Logger.Warn("cannot record the end of a replay, retrying", zap.String("replay", d.r.Name), zap.Error(err))
		return false
	}

	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
