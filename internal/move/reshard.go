package move

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/store"
)

// ErrRefused is what Reshard's errors wrap where it has changed nothing and would not
// if it were called again.
var ErrRefused = errors.New("refused")

// Options of Reshard.
type Options struct {
	Conn      *store.Conn
	Namespace string
	// To is how many shards there shall be.
	To int
	// Force goes on although instances live that know nothing of reshards.
	Force bool
	// Confirm is what is waited for before what has arrived is forgotten where it was.
	Confirm store.Confirm
	// Say hears what is being done, OnMoved how many notices have gone of how many.
	Say     func(text string)
	OnMoved func(n int, of int64)
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

// The times of a Reshard.
const (
	holdFor   = 15 * time.Second // that it is the only one
	renew     = 4 * time.Second
	tellWait  = 3 * time.Second // for what instances tell that have just begun
	knownWait = 10 * time.Second
	pollEvery = 100 * time.Millisecond
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
		return Done{}, store.Wrap("meta", err)
	}
	if n == 0 {
		return Done{}, fmt.Errorf("%w: no instance has begun on this Redis under the namespace %s: set NOTIFIER_SHARDS=%d for the first start", ErrRefused, o.Namespace, o.To)
	}
	space, _, err := store.Discover(ctx, o.Conn, keys.Space{Namespace: o.Namespace}, cluster)
	if err != nil {
		return Done{}, err
	}
	r := &resharder{Options: o, store: store.New(store.Options{Client: o.Conn.UniversalClient, Space: space, Cluster: cluster, Nodes: o.Conn.Nodes, Conn: o.Conn,
		Confirm: o.Confirm})}
	if err := r.store.Detect(ctx); err != nil {
		return Done{}, err
	}
	ctx, release, err := r.alone(ctx)
	if err != nil {
		return Done{}, err
	}
	defer release()
	err = r.run(ctx, cluster)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return r.done, err
}

// alone holds that this is the only reshard, until release is called. If that is lost,
// the context ends.
func (r *resharder) alone(ctx context.Context) (held context.Context, release func(), err error) {
	token := "reshard-" + rand.Text()
	held, cancel := context.WithCancelCause(ctx)
	var ended sync.WaitGroup
	line, err := r.listen(held, token)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	ended.Go(func() {
		for held.Err() == nil {
			if _, err := line.Next(held); err != nil { // it is made anew by the client
				time.Sleep(pollEvery) // sleep: between tries of what fails
			}
		}
	})
	end := func() {
		cancel(nil)
		_ = line.Close() // of no use any more
		ended.Wait()
	}
	ok, err := r.store.Resharding(ctx, token, holdFor)
	if err == nil && !ok {
		err = fmt.Errorf("%w: another reshard is at work; if its connection was lost, its hold ends within %s", ErrRefused, holdFor)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	ended.Go(func() {
		until := time.Now().Add(holdFor)
		for {
			select {
			case <-held.Done():
				return
			case <-time.After(renew):
			}
			from := time.Now()
			switch ok, err := r.store.Resharding(held, token, holdFor); {
			case err == nil && ok:
				until = from.Add(holdFor)
			case err == nil || time.Now().After(until):
				cancel(errors.New("the hold that keeps other reshards away is lost; run it again"))
				return
			}
		}
	})
	return held, func() {
		end()
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = r.store.EndResharding(last, token) // else it ends by itself
	}, nil
}

// listen opens the line by which others see that this process lives.
func (r *resharder) listen(ctx context.Context, token string) (store.Line, error) {
	line, err := r.store.Listen(ctx, token)
	if err != nil {
		return nil, err
	}
	for {
		h, err := line.Next(ctx)
		if err != nil {
			_ = line.Close()
			return nil, store.Wrap("listen", err)
		}
		if h.Subscribed {
			return line, nil
		}
	}
}

func (r *resharder) run(ctx context.Context, cluster bool) error {
	if err := r.able(ctx); err != nil {
		return err
	}
	// What another has left, killed at whatever step, is finished first.
	if err := r.store.Spread(ctx); err != nil {
		return err
	}
	left, err := r.store.Drained(ctx, nil)
	if err != nil {
		return err
	}
	now := r.store.Space().Now()
	r.done.Shards = now.Shards
	if left > 0 {
		r.Say(fmt.Sprintf("former shards hold notices: what was begun before is finished first, with %s", shards(now.Shards)))
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
	r.Say(fmt.Sprintf("%s, with the tags %s, are in the place of %d", shards(r.To), strings.Join(next.Tags, ","), now.Shards))
	if err := r.awaitFleet(ctx); err != nil {
		return err
	}
	return r.empty(ctx)
}

func shards(n int) string {
	if n == 1 {
		return "1 shard"
	}
	return fmt.Sprintf("%d shards", n)
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
	var unable []string
	err := r.await(ctx, tellWait, func(list []fleet.Instance) bool {
		unable = names(list, 1)
		return len(unable) == 0
	})
	switch {
	case errors.Is(err, store.ErrRights), errors.Is(err, store.ErrForeign), redis.IsPermissionError(err):
		return fmt.Errorf("%w: who lives cannot be seen (%w); end all instances of a version before this one, and say --force", ErrRefused, err)
	case err != nil:
		return err
	case len(unable) > 0:
		return fmt.Errorf("%w: these instances are of a version that knows nothing of reshards: %s; update them first, or, if they have ended, say --force",
			ErrRefused, strings.Join(unable, ", "))
	}
	return nil
}

// awaitFleet waits until all instances know of the new shards, so that what is moved
// there is served; what one that does not answer does with the former ones is refused.
func (r *resharder) awaitFleet(ctx context.Context) error {
	places := r.store.Space().Places()
	err := r.await(ctx, knownWait, func(list []fleet.Instance) bool {
		r.done.Silent = names(list, places)
		return len(r.done.Silent) == 0
	})
	if errors.Is(err, store.ErrRights) || errors.Is(err, store.ErrForeign) {
		return nil // which is why it was forced
	}
	if len(r.done.Silent) > 0 {
		r.Say("not heard from yet: " + strings.Join(r.done.Silent, ", ") + "; what they hold counts, and they learn of the new shards with their next call")
	}
	return err
}

// await polls who lives until ok, or for so long.
func (r *resharder) await(ctx context.Context, during time.Duration, ok func([]fleet.Instance) bool) error {
	for until := time.Now().Add(during); ; {
		list, err := fleet.List(ctx, r.store)
		if err != nil || ok(list) || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// names are those of the instances that know of less than so many places.
func names(list []fleet.Instance, places int) []string {
	var out []string
	for _, i := range list {
		if f, _ := i.ReadFigures(); f.Places < places && time.Since(i.Seen) < time.Minute {
			out = append(out, fmt.Sprintf("%s (%s, %s)", i.Label, i.ID, i.Version))
		}
	}
	return out
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
	mover := Mover{From: r.store, To: r.store, OnMoved: func(n int) {
		r.done.Moved += n
		r.OnMoved(n, total)
	}}
	for {
		got, err := mover.Pass(ctx)
		if err != nil {
			return err
		}
		r.done.Held = got.Held
		if got.Moved == 0 || len(r.store.Formers()) == 0 {
			return r.store.Spread(ctx) // the instances need look there no more
		}
	}
}
