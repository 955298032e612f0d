package move

import (
	"context"
	"fmt"
)

// tombstones copies the tombstones of the old side to the new one. The old side keeps its own, since it takes schedule calls until it is left.
// A bucket that has been copied is read again only if it holds another number by now.
func (m *migrator) tombstones(ctx context.Context) error {
	for place := range m.from.Space().Places() {
		sizes, err := m.from.Buckets(ctx, place)
		if err != nil {
			return err
		}
		for bucket, size := range sizes {
			name := fmt.Sprint(place, " ", bucket)
			if m.copied[name] == size {
				continue
			}
			if err := m.copyBucket(ctx, place, bucket); err != nil {
				return err
			}
			m.copied[name] = size
		}
		if len(sizes) > 0 {
			if err := m.step("trimmed", func() error { return m.from.CopyTrimmed(ctx, place, m.to) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *migrator) copyBucket(ctx context.Context, place int, bucket string) error {
	for cursor := uint64(0); ; {
		some, next, err := m.from.ReadTombs(ctx, place, bucket, cursor)
		if err != nil {
			return err
		}
		if err := m.step("tombstones", func() error { return m.to.CopyTombs(ctx, some) }); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
