package move

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/tracing"
	"notifier/internal/wire"
)

// ErrRefused is returned if a reshard or migration is not possible now. A repeated call is refused too
// until the operator has removed the reason, which the error states.
var ErrRefused = errors.New("refused")

// Options are the options of Reshard.
type Options struct {
	Conn      *wire.Conn
	Namespace string
	// To is the new number of shards.
	To int
	// Force ignores instances that do not support reshards.
	Force bool
	// Confirm is the durability that an import needs before the source deletes the batch.
	Confirm wire.Confirm
	// Progress receives the steps. It may be nil.
	Progress Progress
	// Tracer, if not nil, makes a span of the reshard and of each batch.
	Tracer trace.Tracer
}

// Done is the result of Reshard.
type Done struct {
	Shards  int  `json:"shards"`
	Changed bool `json:"changed"` // false: the number of shards was the same before
	Moved   int  `json:"moved"`
	// Held is the number of notices that stay in old shards until their claim ends or their outcome is
	// reported. The instances move them then.
	Held int `json:"held"`
	// Silent are instances whose heartbeat does not show the new shards yet. The guard refuses their
	// calls until they have read the new layout.
	Silent []string `json:"silent,omitempty"`
}

// Time limits for heartbeats.
const (
	tellWait  = 3 * time.Second  // the first heartbeat of instances that have just started
	knownWait = 10 * time.Second // heartbeats that show the new shards
)

// resharder is one call of Reshard.
type resharder struct {
	Options
	store Redis
	done  Done
}

// Reshard changes the number of shards to o.To and moves the notices to the new shards while they are delivered. It
// returns when it can move no more notices. Those that are claimed or await a consumer's report are counted in
// [Done].Held, and instances move them later. If Reshard was interrupted, call it again.
func Reshard(ctx context.Context, o Options) (Done, error) {
	cluster := o.Conn.Masters != nil
	n, err := o.Conn.Exists(ctx, keys.Space{Namespace: o.Namespace}.Meta()).Result()
	if err != nil {
		return Done{}, wire.Wrap("meta", err)
	}

	if n == 0 {
		return Done{}, fmt.Errorf("%w: no instance has started on this Redis with the namespace %s: set NOTIFIER_SHARDS=%d for the first start",
			ErrRefused, o.Namespace, o.To)
	}

	space, _, err := store.Discover(ctx, o.Conn, keys.Space{Namespace: o.Namespace}, cluster)
	if err != nil {
		return Done{}, err
	}

	o.Progress = orQuiet(o.Progress)
	r := &resharder{Options: o, store: On(store.New(store.Options{Client: o.Conn.Commander, Space: space, Cluster: cluster,
		Nodes: o.Conn.Nodes, Conn: o.Conn, Confirm: o.Confirm}))}
	if err := r.store.Wire().Detect(ctx); err != nil {
		return Done{}, err
	}

	ctx, release, err := exclusive(ctx, r.store)
	if err != nil {
		return Done{}, err
	}

	defer release()

	ctx, span := tracing.Step(ctx, o.Tracer, "reshard", tracing.Shards.Int(o.To))
	err = r.run(ctx, cluster)
	span.SetAttributes(tracing.Notices.Int(r.done.Moved))
	tracing.End(span, err, "redis")
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}

	return r.done, err
}

func (r *resharder) run(ctx context.Context, cluster bool) error {
	if err := r.able(ctx); err != nil {
		return err
	}

	// An earlier reshard may have been killed before all places knew its shards.
	if err := r.store.Layout.Spread(ctx); err != nil {
		return err
	}

	if side := r.store.Layout.Side(); side.State != store.SideOpen {
		return fmt.Errorf("%w: notices are moving, or have moved, to or from another Redis (this side is %s): reshard the new side after "+
			"notifier migrate has finished", ErrRefused, side.State)
	}

	// An unfinished reshard to another number is finished first.
	if err := r.finish(ctx); err != nil {
		return err
	}

	now := r.store.Space().Now()
	if now.Shards == r.To && (!cluster || even(now)) {
		return nil
	}

	next := now.Replace(r.To, cluster)
	if err := r.store.Layout.Announce(ctx, next); err != nil {
		return err
	}

	r.done.Shards, r.done.Changed = r.To, true
	r.Progress.Say(fmt.Sprintf("%s with the tags %s replace %d", notice.Count(r.To, "shard"), strings.Join(next.Tags, ","),
		now.Shards))

	if err := r.awaitFleet(ctx); err != nil {
		return err
	}

	return r.empty(ctx)
}

// finish finishes a reshard that was interrupted.
func (r *resharder) finish(ctx context.Context) error {
	left, err := r.store.Layout.Drained(ctx, nil)
	if err != nil {
		return err
	}

	r.done.Shards = r.store.Space().Now().Shards
	if left == 0 {
		return nil
	}

	r.Progress.Say("old shards hold notices: finishing the previous reshard first, to " + notice.Count(r.done.Shards, "shard"))
	return r.empty(ctx)
}

// even reports whether the shards are spread over the slots of a cluster as at a first start.
func even(s keys.Space) bool {
	for i := range s.Shards {
		if s.Shards > 1 && keys.Slot(s.Tag(s.First()+i)) != (2*i+1)*keys.Slots/(2*s.Shards) {
			return false
		}
	}
	return true
}

// able returns ErrRefused if an instance does not support reshards.
func (r *resharder) able(ctx context.Context) error {
	if r.Force {
		return nil
	}

	_, err := able(ctx, r.store, "reshards", knowsPlaces(1), false)
	return err
}

// awaitFleet waits until the heartbeats of all instances show the new shards, so that instances claim
// the moved notices at once. It does not fail without them: the guard refuses calls of the others.
func (r *resharder) awaitFleet(ctx context.Context) error {
	places := r.store.Space().Places()
	err := await(ctx, r.store, knownWait, func(list []fleet.Instance) bool {
		r.done.Silent = lacking(list, knowsPlaces(places))
		return len(r.done.Silent) == 0
	})
	if isForbidden(err) {
		return nil // the heartbeats cannot be read, and --force was used
	}

	if len(r.done.Silent) > 0 {
		r.Progress.Say("not using the new shards yet: " + strings.Join(r.done.Silent, ", ") +
			"; their claims stay valid, and their next call reads the new layout")
	}

	return err
}

// empty moves all notices out of the old shards, except those that are claimed or await a report.
func (r *resharder) empty(ctx context.Context) error {
	total := int64(0)
	for _, place := range r.store.Layout.OldShards() {
		n, err := r.store.Layout.Records(ctx, place)
		if err != nil {
			return err
		}

		total += n
	}

	mover := Mover{From: r.store, To: r.store, Tracer: r.Tracer, Counter: &tally{&r.done.Moved, total, r.Progress}}
	for {
		got, err := mover.Pass(ctx)
		if err != nil {
			return err
		}

		r.done.Held = got.Held.All()
		if got.Moved == 0 || len(r.store.Layout.OldShards()) == 0 {
			return r.store.Layout.Spread(ctx) // the old shards are empty, so instances stop checking them
		}
	}
}
