package schedule

import (
	"context"
	"fmt"
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

	of, fault := to.SealSubject(r.Audience, r.Key)
	if fault != "" {
		return fmt.Errorf("%w: audience %s", notice.ErrInvalid, fault)
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

// sealMany seals requests, and sets the error of each that cannot be sealed.
func (s *Scheduler) sealMany(ctx context.Context, list []sealing, reqs []store.Request, out []store.Reply) {
	var g errgroup.Group
	g.SetLimit(sealers)
	for some := range slices.Chunk(list, sealTogether) {
		g.Go(func() error {
			for _, x := range some {
				out[x.i].Err = s.sealed(ctx, x.to, x.at, &reqs[x.i])
			}

			return nil
		})
	}

	_ = g.Wait() // no function returns an error
}
