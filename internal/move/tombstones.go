package move

import (
	"context"
	"fmt"
	"math"
	"strconv"
)

// tombstones copies the tombstones of the old side to the new one. The old side keeps its
// own, since it takes schedule calls until it is left.
//
// A bucket that has been copied is read again only if it holds another number by now, or if
// a notice has been trimmed since that was settled in its time: that one's tombstone may
// have taken the place of an earlier one of the same key.
func (m *migrator) tombstones(ctx context.Context) error {
	for place := range m.from.Space().Places() {
		trimmed, err := m.from.Trimmed(ctx, place)
		if err != nil {
			return err
		}
		sizes, err := m.from.Buckets(ctx, place)
		if err != nil {
			return err
		}
		since := changedSince(m.trimmed[place], trimmed)
		for bucket, size := range sizes {
			name := fmt.Sprint(place, " ", bucket)
			if end, _ := strconv.ParseInt(bucket, 10, 64); m.copied[name] == size && end <= since {
				continue
			}
			if err := m.copyBucket(ctx, place, bucket); err != nil {
				return err
			}
			m.copied[name] = size
		}
		m.trimmed[place] = trimmed
		if len(sizes) > 0 {
			if err := m.step("trimmed", func() error { return m.to.CopyTrimmed(ctx, trimmed) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// changedSince is the earliest time, in Unix ms, that a mark of how far trimming has got had
// before it changed. The notices of a prefix are trimmed in the order in which they were
// settled, so no bucket that ends before that time has changed since.
func changedSince(before, now map[string]int64) int64 {
	since := int64(math.MaxInt64)
	for prefix, ms := range now {
		if had := before[prefix]; had != ms {
			since = min(since, had)
		}
	}
	return since
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
