package reconcile

import (
	"context"

	"notifier/internal/coalesce"
	"notifier/internal/store"
)

// ManyLooker looks at some partitions in one call.
type ManyLooker interface {
	Look(ctx context.Context, list []store.Look) ([]store.View, error)
	Touch(ctx context.Context, keys []string) (store.Touched, error)
	TouchGroups(ctx context.Context, prefix string, list []store.TouchGroup) (int, error)
}

// Looks is the Looker of all Sweepers of a process. Looks that can wait for each
// other share calls: idle Sweepers look at the same instants, and one call serves
// up to store.MaxLooks of them. It is safe for concurrent use.
type Looks struct {
	ManyLooker
	cluster bool

	shared *coalesce.Group[int, *shared] // by shard in a cluster
}

// shared is a look that waits for others.
type shared struct {
	ctx  context.Context
	look store.Look
	view store.View
	err  error
	done chan struct{}
}

// NewLooks makes Looks. In a cluster the partitions of one call must be of one shard.
func NewLooks(s ManyLooker, cluster bool) *Looks {
	l := &Looks{ManyLooker: s, cluster: cluster}
	// A single sender: what is asked for while a call is under way goes together with
	// the next.
	l.shared = coalesce.NewGroup[int](coalesce.Options{MaxSenders: 1, MinExtra: 1, MaxBatch: store.MaxLooks}, l.send)
	return l
}

// Look implements Looker.
func (l *Looks) Look(ctx context.Context, look store.Look, patient bool) (store.View, error) {
	if !patient {
		v, err := l.ManyLooker.Look(ctx, []store.Look{look})
		if err != nil {
			return store.View{}, err
		}
		return v[0], v[0].Err
	}
	a := &shared{ctx: ctx, look: look, done: make(chan struct{})}
	shard := 0
	if l.cluster {
		shard = look.Partition.Shard
	}
	l.shared.For(shard).Add(a)
	<-a.done // at the end of a ctx at the latest: that of the first of its call, which began before this one
	return a.view, a.err
}

// send makes one call. All contexts are of the process, and that of the first is
// the first to end.
func (l *Looks) send(batch []*shared) {
	list := make([]store.Look, len(batch))
	for i, a := range batch {
		list[i] = a.look
	}
	views, err := l.ManyLooker.Look(batch[0].ctx, list)
	for i, a := range batch {
		if a.err = err; err == nil {
			a.view, a.err = views[i], views[i].Err
		}
		close(a.done)
	}
}
