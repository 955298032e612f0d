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
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/tracing"
	"notifier/internal/wire"
)

// ErrRefused is what Reshard's errors wrap where it has changed nothing and would not
// if it were called again.
var ErrRefused = errors.New("refused")

// Options of Reshard.
type Options struct {
	Conn      *wire.Conn
	Namespace string
	// To is how many shards there shall be.
	To int
	// Force goes on although instances live that know nothing of reshards.
	Force bool
	// Confirm is what is waited for before what has arrived is forgotten where it was.
	Confirm wire.Confirm
	// Say hears what is being done, OnMoved how many notices have gone of how many.
	Say     func(text string)
	OnMoved func(n int, of int64)
	// Tracer makes a span of the reshard, and of each batch. Nil: there are none.
	Tracer trace.Tracer
}

// Done is what a Reshard has come to.
type Done struct {
	Shards  int  `json:"shards"`
	Changed bool `json:"changed"` // else there were as many before
	Moved   int  `json:"moved"`
	// Held is how many notices stay in former shards until their claim ends or they are
	// reported; the instances move them then.
	Held int `json:"held"`
	// Silent are instances that have not said yet that they know the new shards: what
	// they do with the former ones is refused until they do.
	Silent []string `json:"silent,omitempty"`
}

// How long instances are waited for.
const (
	tellWait  = 3 * time.Second // for what those tell that have just begun
	knownWait = 10 * time.Second
)

// resharder is one call of Reshard.
type resharder struct {
	Options
	store *store.Store
	done  Done
}

// Reshard puts To shards in the place of those there are, while instances deliver. If
// it is ended, the same call goes on; one that another has left is finished first.
func Reshard(ctx context.Context, o Options) (Done, error) {
	cluster := o.Conn.Masters != nil
	n, err := o.Conn.Exists(ctx, keys.Space{Namespace: o.Namespace}.Meta()).Result()
	if err != nil {
		return Done{}, wire.Wrap("meta", err)
	}
	if n == 0 {
		return Done{}, fmt.Errorf("%w: no instance has begun on this Redis under the namespace %s: set NOTIFIER_SHARDS=%d for the first start",
			ErrRefused, o.Namespace, o.To)
	}
	space, _, err := layout.Discover(ctx, o.Conn, keys.Space{Namespace: o.Namespace}, cluster)
	if err != nil {
		return Done{}, err
	}
	r := &resharder{Options: o, store: store.New(store.Options{Client: o.Conn.UniversalClient, Space: space, Cluster: cluster,
		Nodes: o.Conn.Nodes, Conn: o.Conn,
		Confirm: o.Confirm})}
	if err := r.store.Wire().Detect(ctx); err != nil {
		return Done{}, err
	}
	ctx, release, err := alone(ctx, r.store)
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
	// What another has left, killed at whatever step, is finished first.
	if err := r.store.Spread(ctx); err != nil {
		return err
	}
	if side := r.store.Side(); side.State != layout.SideOpen {
		return fmt.Errorf("%w: notices are being moved to another Redis or from it (%s), or have moved: reshard the new side when notifier "+
			"migrate is done",
			ErrRefused, side.State)
	}
	left, err := r.store.Drained(ctx, nil)
	if err != nil {
		return err
	}
	now := r.store.Space().Now()
	r.done.Shards = now.Shards
	if left > 0 {
		r.Say(fmt.Sprintf("former shards hold notices: what was begun before is finished first, with %s", notice.Count(now.Shards, "shard")))
		if err := r.empty(ctx); err != nil {
			return err
		}
	}
	if now.Shards == r.To && (!cluster || even(now)) {
		return nil
	}
	next := now.Replace(r.To, cluster)
	if err := r.store.Announce(ctx, next); err != nil {
		return err
	}
	r.done.Shards, r.done.Changed = r.To, true
	r.Say(fmt.Sprintf("%s, with the tags %s, are in the place of %d", notice.Count(r.To, "shard"), strings.Join(next.Tags, ","), now.Shards))
	if err := r.awaitFleet(ctx); err != nil {
		return err
	}
	return r.empty(ctx)
}

// even reports whether the shards lie over the slots as those of a first start.
func even(s keys.Space) bool {
	for i := range s.Shards {
		if s.Shards > 1 && keys.Slot(s.Tag(s.First()+i)) != (2*i+1)*keys.Slots/(2*s.Shards) {
			return false
		}
	}
	return true
}

// able refuses where an instance lives that knows nothing of reshards.
func (r *resharder) able(ctx context.Context) error {
	if r.Force {
		return nil
	}
	_, err := able(ctx, r.store, "reshards", knows(1), false)
	return err
}

// awaitFleet waits until all instances know of the new shards, so that what is moved
// there is served; what one that does not answer does with the former ones is refused.
func (r *resharder) awaitFleet(ctx context.Context) error {
	places := r.store.Space().Places()
	err := await(ctx, r.store, knownWait, func(list []fleet.Instance) bool {
		r.done.Silent = names(list, knows(places))
		return len(r.done.Silent) == 0
	})
	if isForbidden(err) {
		return nil // which is why it was forced
	}
	if len(r.done.Silent) > 0 {
		r.Say("not heard from yet: " + strings.Join(r.done.Silent, ", ") +
			"; what they hold counts, and they learn of the new shards with their next call")
	}
	return err
}

// empty moves all that does not stay in former shards for a claim or a report.
func (r *resharder) empty(ctx context.Context) error {
	total := int64(0)
	for _, place := range r.store.Formers() {
		n, err := r.store.Records(ctx, place)
		if err != nil {
			return err
		}
		total += n
	}
	mover := Mover{From: r.store, To: r.store, Tracer: r.Tracer, OnMoved: func(n int) {
		r.done.Moved += n
		r.OnMoved(n, total)
	}}
	for {
		got, err := mover.Pass(ctx)
		if err != nil {
			return err
		}
		r.done.Held = got.Held.All()
		if got.Moved == 0 || len(r.store.Formers()) == 0 {
			return r.store.Spread(ctx) // the instances need look there no more
		}
	}
}
