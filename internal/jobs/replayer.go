package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/tracing"
	"notifier/internal/wire"
)

// Journal is the set of database operations that a Replayer uses.
type Journal interface {
	TakeReplay(ctx context.Context, driver string, hold time.Duration, except []string) (history.Replay, bool, error)
	KeepReplay(ctx context.Context, r *history.Replay, driver string, hold time.Duration) (bool, error)
	LeaveReplay(ctx context.Context, id, driver string) error
	EndReplay(ctx context.Context, r *history.Replay, driver string) error
	ReplayItems(ctx context.Context, id string, after int64, n int) ([]history.ReplayItem, error)
}

// Sender is the set of Redis operations that a Replayer uses.
type Sender interface {
	Replay(ctx context.Context, r Part, items []Item) ([]Answer, error)
	ReplayCounts(ctx context.Context, mark string) (map[string]int64, error)
	// CameSince reports whether a migration to this Redis began after a time.
	CameSince(at time.Time) bool
}

// Sealing is the part of a Keyring that a Replayer uses.
type Sealing interface {
	Ready(ctx context.Context, shard int, list []*notice.Notice) ([]string, error)
}

// ReplayerOptions configures a Replayer.
type ReplayerOptions struct {
	Journal Journal
	Sender  Sender
	Routes  *route.Table
	Space   keys.Space
	// Sealing makes the notices of a batch ready for a shard: see [Keyring]. Nil: no notice is sealed.
	Sealing Sealing
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

// How a Replayer proceeds.
const (
	lookEvery  = 2 * time.Second
	batchFor   = time.Second
	batchItems = 500
	batchBytes = 1 << 20 // of bodies, in one call of the script
)

// Replayer drives replays. Every instance with a history runs one.
type Replayer struct {
	driver
	o ReplayerOptions
}

// NewReplayer makes a Replayer. Run starts it.
func NewReplayer(o ReplayerOptions) *Replayer { return &Replayer{driver: newDriver(), o: o} }

// Run drives replays until ctx ends, and returns nil. Another instance, or the next start,
// continues them.
func (d *Replayer) Run(ctx context.Context) error {
	d.watch(ctx, func() time.Duration { return lookEvery }, d.take)
	return nil
}

// take takes a replay without a driver.
func (d *Replayer) take(ctx context.Context, token string, full []string) *task {
	r, ok, err := d.o.Journal.TakeReplay(ctx, token, leaseFor, full)
	if err != nil && ctx.Err() == nil {
		d.o.Logger.Debug("cannot read the replays, retrying", zap.Error(err))
	}

	if !ok || err != nil {
		return nil
	}

	log := d.o.Logger.With(zap.String("replay", r.Name))
	log.Info("replaying", zap.Int64("done", r.Done), zap.Int64("total", r.Total))
	return &task{&replayDrive{Replayer: d, r: r, as: token, log: log, next: time.Now()}, r.Client, log}
}

// replayDrive is the driving of one replay.
type replayDrive struct {
	*Replayer
	r    history.Replay
	as   string
	log  *zap.Logger
	next time.Time // when the next batch is due
}

func (d *replayDrive) step(ctx context.Context) (wait time.Duration, over bool, err error) {
	if err := d.outdated(); err != nil {
		return 0, false, err
	}

	n, err := d.batch(ctx)
	if errors.Is(err, wire.ErrMoved) {
		return 0, false, failure{"notices are being moved to another Redis, or from it: " + anew}
	}
	if err != nil || n == 0 {
		return 0, err == nil, err
	}

	// A late batch is not followed by a burst.
	d.next = notice.Later(d.next.Add(time.Duration(float64(n)/d.r.Rate*float64(time.Second))), time.Now().Add(-batchFor))
	return time.Until(d.next), false, nil
}

func (d *replayDrive) keep(ctx context.Context) (bool, error) {
	return d.o.Journal.KeepReplay(ctx, &d.r, d.as, leaseFor)
}

func (d *replayDrive) leave(ctx context.Context) error {
	return d.o.Journal.LeaveReplay(ctx, d.r.ID, d.as)
}

func (d *replayDrive) end(ctx context.Context, state, reason string) error {
	if counts, err := d.o.Sender.ReplayCounts(ctx, d.r.Mark()); err == nil && len(counts) > 0 {
		d.r.Counts = counts // some items of the last batch may have been sent
	}

	d.r.State, d.r.Reason = history.ReplayState(state), reason
	if err := d.o.Journal.EndReplay(ctx, &d.r, d.as); err != nil {
		return err
	}

	if state == Done {
		d.log.Info("replayed", zap.Any("counts", d.r.Counts))
	}

	return nil
}

// anew is the end of the reason of a replay that failed because notices have moved.
const anew = "items that it has not sent by now need a new replay"

// outdated returns a failure if the replay was made for other shards, or on another Redis: its progress is stored in each
// of those shards.
func (d *replayDrive) outdated() error {
	now := d.o.Space.Places()
	switch {
	case d.r.Shards != now:
		return failure{fmt.Sprintf("the shards have changed since it was made (%d, and %d now, former ones included); %s", d.r.Shards, now, anew)}
	case d.o.Sender.CameSince(d.r.Made):
		return failure{"notices have moved to another Redis since it was made: " + anew}
	}

	return nil
}

// batch sends the items that are due within the next second, and returns their number.
func (d *replayDrive) batch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseFor)
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
		shards[it.Shard] = append(shards[it.Shard], itemOf(d.o.Routes, &d.r, it, time.Duration(i)*each))
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
func (d *replayDrive) sendAll(ctx context.Context, shards map[int][]Item) error {
	for shard, list := range shards {
		if err := d.send(ctx, shard, list); err != nil {
			return err
		}
	}
	return nil
}

// send sends items of one shard in calls that are bounded.
func (d *replayDrive) send(ctx context.Context, shard int, list []Item) error {
	for len(list) > 0 {
		n := fitting(list)
		if err := d.ready(ctx, shard, list[:n]); err != nil {
			return err
		}

		answers, err := d.o.Sender.Replay(ctx, Part{Mark: d.r.Mark(), Shard: shard, NewIDs: d.r.NewIDs}, list[:n])
		d.count(answers)
		if err != nil {
			return err
		}

		list = list[n:]
	}
	return nil
}

// fitting returns the number of items for one call of the script.
func fitting(list []Item) (n int) {
	for size := 0; n < len(list) && n < maxItems && (n == 0 || size < batchBytes); n++ {
		if x := list[n].Notice; x != nil {
			size += len(x.Body) + len(x.Sealed)
		}
	}
	return n
}

func (d *replayDrive) count(answers []Answer) {
	if d.o.Observer == nil {
		return
	}

	for _, a := range answers {
		if a.Result != "" {
			d.o.Observer.Replayed(a.Result)
		}
	}
}

// ready makes items ready for a shard. It takes the notices out of those that cannot be sent.
func (d *replayDrive) ready(ctx context.Context, shard int, items []Item) error {
	if d.o.Sealing == nil {
		return nil
	}

	var list []*notice.Notice
	for i := range items {
		if items[i].Notice != nil {
			list = append(list, items[i].Notice)
		}
	}

	results, err := d.o.Sealing.Ready(ctx, shard, list)
	if err != nil {
		return err
	}

	for i := range items {
		if items[i].Notice == nil {
			continue
		}

		if results[0] != "" {
			items[i].Notice, items[i].Result = nil, results[0]
		}

		results = results[1:]
	}

	return nil
}
