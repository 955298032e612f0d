package vault

import (
	"context"
	"slices"

	"notifier/internal/wire"
)

// maxCounted bounds the names of a count, because other programs may write to the hash. Further names are counted as otherName.
const (
	maxCounted = 100
	otherName  = "other"
)

// counter counts keys by the name of their service key.
type counter map[string]int

func (c counter) add(name string) {
	if _, known := c[name]; !known && len(c) >= maxCounted {
		name = otherName
	}

	c[name]++
}

// Count counts the keys of all shards by the name of their service key. It reads all keys.
func Count(ctx context.Context, w *wire.Client) (map[string]int, error) {
	under := counter{}
	err := each(ctx, w, func(_ int, list []storedKey) error {
		for _, k := range list {
			under.add(k.under)
		}

		return nil
	})
	return under, err
}

// each calls f with all keys of all shards, at most keysAtOnce at a time.
func each(ctx context.Context, w *wire.Client, f func(shard int, list []storedKey) error) error {
	for shard := range w.Space.Places() {
		for cursor := uint64(0); ; {
			page, next, err := scan(ctx, w, shard, cursor)
			if err != nil {
				return err
			}

			// A small hash is one page, however many keys it has.
			for some := range slices.Chunk(page, keysAtOnce) {
				if err := f(shard, some); err != nil {
					return err
				}
			}

			if cursor = next; cursor == 0 {
				break
			}
		}
	}

	return nil
}
