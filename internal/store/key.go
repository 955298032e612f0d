package store

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keyring"
)

// Key is the service's own key, which is made if there is none: see package
// keyring. Of instances that begin at the same time one makes it.
func (s *Store) Key(ctx context.Context) ([]byte, error) {
	name := s.space.Key()
	key, err := s.c.Get(ctx, name).Bytes()
	if errors.Is(err, redis.Nil) {
		fresh := make([]byte, keyring.Size)
		_, _ = rand.Read(fresh) // it never fails
		if _, err := s.c.SetNX(ctx, name, fresh, 0).Result(); err != nil {
			return nil, s.fail("key", err)
		}
		key, err = s.c.Get(ctx, name).Bytes()
	}
	if err != nil {
		return nil, s.fail("key", err)
	}
	return key, nil
}
