package layout

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

//go:embed lua/identity.lua
var identitySource string

// The data identity is a random id of the data in a namespace of a Redis. The command migrate
// copies it to the new Redis. Home, in contrast, names the server.

// A full Redis must be able to store an identity.
var identityScript = wire.NewScript("identity", identitySource, false).Anywhere()

// Identity reads the random id of the data in this Redis, and creates the id if there is none. The id differs from an
// earlier one if the address leads to other data now. While Redis is unavailable or empty, Identity returns the id that
// it read last; without one, it returns an error, which is [wire.ErrNotBegun] for an empty Redis.
func (s *Layout) Identity(ctx context.Context) (string, error) {
	was := s.identity.Load()
	if was != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, KnownTimeout)
		defer cancel()
	}

	id, err := s.readIdentity(ctx, was)
	if err == nil {
		s.identity.Store(&id)
		return id, nil
	}

	if was != nil && errors.Is(err, wire.ErrUnavailable) {
		return *was, nil
	}

	return "", err
}

func (s *Layout) readIdentity(ctx context.Context, was *string) (string, error) {
	name := s.space.Meta()
	id, err := s.c.HGet(ctx, name, "id").Result()
	if !errors.Is(err, redis.Nil) {
		return id, s.w.Wrapped("identity", err)
	}

	fresh := rand.Text()
	if was != nil { // Redis was emptied: store the identity that this instance knows
		fresh = *was
	}

	id, err = s.w.Do(ctx, identityScript, []string{name}, []any{fresh}).Text()
	if err == nil && id == "" {
		return "", wire.ErrNotBegun
	}

	return id, s.w.Wrapped(identityScript.Op, err)
}
