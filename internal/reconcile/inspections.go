package reconcile

import (
	"context"

	"notifier/internal/pace"
	"notifier/internal/store"
)

// BatchInspector inspects several partitions in one call. *store.Store implements it.
type BatchInspector interface {
	Look(ctx context.Context, list []store.Look) ([]store.View, error)
}

// Toucher makes Redis expire due timers. *store.Timers implements it.
type Toucher interface {
	Touch(ctx context.Context, keys []string) (store.Touched, error)
	TouchGroups(ctx context.Context, prefix string, list []store.TouchGroup) (int, error)
}

// Inspections finds out which notices are due, for all [Sweeper]s of a process. Calls of Sweepers without due notices
// share round trips to Redis, up to store.MaxLooks calls each. Inspections is safe for concurrent use.
type Inspections struct {
	Toucher
	store   BatchInspector
	cluster bool

	shared *pace.Batchers[int, *shared] // by shard in a cluster
}

// shared is an inspection that waits for a shared call.
type shared struct {
	ctx  context.Context
	look store.Look
	view store.View
	err  error
	done chan struct{}
}

// NewInspections returns the Inspections of a store, which touch timers by t. In a cluster all partitions of one call are of
// one shard.
func NewInspections(s BatchInspector, t Toucher, cluster bool) *Inspections {
	l := &Inspections{Toucher: t, store: s, cluster: cluster}
	// With a single sender, requests that come during a call share the next one.
	l.shared = pace.NewBatchers[int](pace.BatcherOptions{MaxSenders: 1, MinExtra: 1, MaxBatch: store.MaxLooks}, l.send)
	return l
}

// Inspect implements [Inspector].
func (l *Inspections) Inspect(ctx context.Context, look store.Look, patient bool) (store.View, error) {
	if !patient {
		v, err := l.store.Look(ctx, []store.Look{look})
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
	<-a.done // at the latest when the ctx of the call's first request ends
	return a.view, a.err
}

// send makes one call, with the context of the first request. All contexts end with the process,
// and that of the first one began first.
func (l *Inspections) send(batch []*shared) {
	list := make([]store.Look, len(batch))
	for i, a := range batch {
		list[i] = a.look
	}

	views, err := l.store.Look(batch[0].ctx, list)
	for i, a := range batch {
		if a.err = err; err == nil {
			a.view, a.err = views[i], views[i].Err
		}

		close(a.done)
	}
}
