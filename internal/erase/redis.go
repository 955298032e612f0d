package erase

import (
	"context"
	_ "embed"
	"slices"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
)

//go:embed lua/delete.lua
var deleteSource string

//go:embed lua/tombstones.lua
var tombstonesSource string

// The operations have the names that metrics had before.
var (
	deleteScript     = wire.NewScript("forget", store.WithParts(deleteSource), false)
	tombstonesScript = wire.NewScript("unbury", tombstonesSource, false)
)

// tombstonesAtOnce is the maximum number of tombstones that one call deletes.
const tombstonesAtOnce = 500

// Redis deletes notices in Redis.
type Redis struct{ *store.Store }

// Delete deletes the settled and dead notices of keys in one partition. It returns how many it
// deleted, and how many are pending and were kept.
func (s Redis) Delete(ctx context.Context, p keys.Partition, ks []string) (deleted, pending int, err error) {
	args := wire.Texts(ks)
	v, err := s.Wire().Do(ctx, deleteScript, s.Space().States(p), args).Int64Slice()
	if err != nil {
		return 0, 0, s.Wire().Fail(deleteScript.Op, err)
	}
	if len(v) != 2 {
		return 0, 0, wire.BadReply(deleteScript.Op, "%d answers", len(v))
	}

	return int(v[0]), int(v[1]), nil
}

// DeleteTombstones deletes the tombstones of keys in all places, and returns their number.
func (s Redis) DeleteTombstones(ctx context.Context, ks []string) (n int, err error) {
	for place := range s.Space().Places() {
		for some := range slices.Chunk(ks, tombstonesAtOnce) {
			digests := make([]any, len(some))
			for i, k := range some {
				digests[i] = keys.AppendDigest(nil, k)
			}

			deleted, err := s.Wire().Do(ctx, tombstonesScript, []string{s.Space().Tombstones(place)}, digests).Int64()
			if err != nil {
				return n, s.Wire().Fail(tombstonesScript.Op, err)
			}

			n += int(deleted)
		}
	}
	return n, nil
}
