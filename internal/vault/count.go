package vault

import (
	"context"

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

// all counts some keys.
func (c counter) all(list []storedKey) error {
	for _, k := range list {
		c.add(k.under)
	}

	return nil
}

// Count counts the keys of all shards by the name of their service key. It reads all keys.
func Count(ctx context.Context, w *wire.Client) (map[string]int, error) {
	under := counter{}
	err := each(ctx, w, func(_ int, list []storedKey) error { return under.all(list) })
	return under, err
}
