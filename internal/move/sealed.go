package move

import (
	"context"

	"notifier/internal/wire"
)

// unsealed returns ErrRefused if a shard has keys of sealed notices, which do not move yet.
func unsealed(ctx context.Context, s Redis) error {
	for shard := range s.Space().Places() {
		n, err := s.Wire().Redis.Exists(ctx, s.Space().Seals(shard)).Result()
		if err != nil {
			return wire.Wrap("seal", err)
		}
		if n > 0 {
			return refusedIf(true, "the notices of a route with SEAL do not move yet, because the keys that open them would stay behind")
		}
	}

	return nil
}
