package intake

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
)

// Vault seals contents. *[vault.Vault] is one.
type Vault interface {
	// Seal seals the secret part of a content with the keys of a subject. It stores them in the shard if they are new.
	Seal(ctx context.Context, shard int, of seal.Subject, key string, c *notice.Content) error
	// SealOtherwise is Seal with the url sealed if Seal leaves it clear, and clear if Seal seals it.
	SealOtherwise(ctx context.Context, shard int, of seal.Subject, key string, c *notice.Content) error
	// Forget drops the keys of a shard from memory, because Redis does not have one of them.
	Forget(shard int)
}

// sealed seals the content of a request, if the route has a seal.
func (s *Scheduler) sealed(ctx context.Context, to *route.Route, p keys.Partition, r *store.Request) error {
	if to.Seal == "" {
		return nil
	}

	of, err := to.SealSubject(r.Audience, r.Key)
	if err != nil {
		return err
	}

	if r.Clear == nil {
		clear := r.Content
		r.Clear = &clear
	}

	r.Content = *r.Clear
	if clear := r.Clear; notice.HasQuery(clear.URL) { // an instance with another SEAL_URL may have stored the notice
		r.Otherwise = func() *notice.Content {
			c := *clear
			if s.o.Vault.SealOtherwise(ctx, p.Shard, of, r.Key, &c) != nil {
				return nil
			}

			return &c
		}
	}

	return s.o.Vault.Seal(ctx, p.Shard, of, r.Key, &r.Content)
}

// sealing is a request to be sealed, by its index.
type sealing struct {
	to *route.Route
	at keys.Partition
	i  int
}

// Requests of a call are sealed sealTogether at a time by up to sealers goroutines: the first notice of a subject waits for round trips.
const sealTogether, sealers = 32, 16

// gates has a channel for each request of a call that is closed when the request is sealed, or cannot be; nil = it is in clear text.
type gates []chan struct{}

// sealMany begins to seal requests in their order, and sets the error of each that cannot be sealed. The first ones can be sent while
// later ones are being sealed.
func (s *Scheduler) sealMany(ctx context.Context, list []sealing, reqs []store.Request, out []store.Reply) gates {
	if len(list) == 0 {
		return nil
	}

	all := make(gates, len(reqs))
	for some := range slices.Chunk(list, sealTogether) {
		done := make(chan struct{})
		for _, x := range some {
			all[x.i] = done
		}
	}

	go func() {
		var g errgroup.Group
		g.SetLimit(sealers)
		for some := range slices.Chunk(list, sealTogether) {
			g.Go(func() error {
				defer close(all[some[0].i])
				for _, x := range some {
					out[x.i].Err = s.sealed(ctx, x.to, x.at, &reqs[x.i])
				}

				return nil
			})
		}
	}()

	return all
}

// await waits until requests are sealed, and returns those that are, or are in clear text.
func (g gates) await(these []int, out []store.Reply) []int {
	if g == nil {
		return these
	}

	ready := make([]int, 0, len(these))
	for _, i := range these {
		if g[i] != nil {
			<-g[i]
		}

		if out[i].Err == nil {
			ready = append(ready, i)
		}
	}

	return ready
}
