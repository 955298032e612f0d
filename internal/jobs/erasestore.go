package jobs

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

// EraseStore deletes notices in Redis.
type EraseStore struct{ *store.Store }

// Deletion is the result of [EraseStore.Delete].
type Deletion struct {
	Deleted int
	Pending int      // notices that are pending and were kept
	Absent  []string // keys without a notice in the partition
}

// Delete deletes the settled and dead notices of keys in one partition.
func (s EraseStore) Delete(ctx context.Context, p keys.Partition, ks []string) (d Deletion, err error) {
	v, err := s.Layout.Parts(ctx, deleteScript, 2, s.Space().States(p), append([]any{s.Space().Wake(), p.Wake()}, wire.Texts(ks)...))
	if err != nil {
		return d, err
	}

	deleted, _ := v[0].(int64)
	pending, _ := v[1].(int64)
	d.Deleted, d.Pending = int(deleted), int(pending)
	for _, x := range v[2:] {
		key, _ := x.(string)
		d.Absent = append(d.Absent, key)
	}

	return d, nil
}

// DeleteTombstones deletes the tombstones of keys in all places, and returns their number.
func (s EraseStore) DeleteTombstones(ctx context.Context, ks []string) (n int, err error) {
	// A reshard adds places, and copies tombstones from lower to higher ones.
	for place := 0; place < s.Space().Places(); place++ {
		for some := range slices.Chunk(ks, tombstonesAtOnce) {
			digests := make([]any, len(some))
			for i, k := range some {
				digests[i] = keys.AppendDigest(nil, k)
			}

			deleted, err := s.Layout.Do(ctx, tombstonesScript, []string{s.Space().Tombstones(place)}, digests).Int64()
			if err != nil {
				return n, s.Wire().Fail(tombstonesScript.Op, err)
			}

			n += int(deleted)
		}
	}
	return n, nil
}
