package store

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

// Key returns the secret key of the service, from which package wire derives the keys that all instances share. If
// Redis has no key, Key creates one. Each call reads the key again, because it may have been replaced. In a cluster,
// Key returns the last known key while the node that stores it does not answer.
func (s *Layout) Key(ctx context.Context) ([]byte, error) {
	name := s.space.Key()
	was := s.key.Load()
	if was != nil && s.w.Cluster && s.w.Nodes.Slow(s.w.Master(ctx, name)) {
		return *was, nil
	}

	var key []byte
	err := s.w.At(ctx, name, func(ctx context.Context) (err error) {
		if was != nil && s.w.Cluster {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, wire.RoundLeast)
			defer cancel()
		}

		key, err = s.readKey(ctx, name)
		return s.w.Wrapped("key", err)
	})
	switch {
	case err == nil:
		s.key.Store(&key)
		return key, nil
	case was != nil && s.w.Cluster && ctx.Err() == nil && errors.Is(err, wire.ErrUnavailable):
		return *was, nil
	}

	return nil, err
}

func (s *Layout) readKey(ctx context.Context, name string) ([]byte, error) {
	key, err := s.c.Get(ctx, name).Bytes()
	if !errors.Is(err, redis.Nil) {
		return key, err
	}

	fresh := make([]byte, wire.KeySize)
	_, _ = rand.Read(fresh) // never fails
	if _, err := s.c.SetNX(ctx, name, fresh, 0).Result(); err != nil {
		return nil, err
	}

	return s.c.Get(ctx, name).Bytes()
}
