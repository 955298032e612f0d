package vault

import (
	"context"

	"go.uber.org/zap"

	"notifier/internal/seal"
)

// Peers returns the service keys of each other living instance that has any, as seal.ServiceKeys.IDs.
type Peers func(ctx context.Context) ([][]string, error)

// Follow makes the Vault wrap new keys with the first service key that all living instances have. Call it before the first Seal.
func (v *Vault) Follow(peers Peers, logger *zap.Logger) { v.peers, v.logger = peers, logger }

// wrapping returns the service keys with which new keys are wrapped. If no key is common to all living instances, or if these
// are unknown, the first wraps.
func (v *Vault) wrapping(ctx context.Context) *seal.ServiceKeys {
	if v.peers == nil {
		return v.keys
	}

	lists, err := v.peers(ctx)
	with, ok := v.keys.Common(lists)
	if alone := err != nil || !ok; v.alone.Swap(alone) != alone && alone {
		v.logger.Warn("found no service key that all instances have, encrypting new keys with the first of this instance",
			zap.Strings("keys", v.keys.Names()), zap.Error(err))
	}

	return with
}
