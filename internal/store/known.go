package store

import (
	"context"
	"errors"
	"slices"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// Known is a notice that is pending or dead in Redis, with a later outcome from the history.
type Known struct {
	// Found is the notice that List returned.
	Found
	Outcome notice.State // delivered or cancelled
	// After is the notice of the history entry.
	After *notice.Notice
}

// SettleKnown settles notices that are pending or dead in Redis although the history, the database of finalized
// notices, has their outcome. This may happen after Redis was restored from a backup. Notices that have changed since
// the caller listed them are skipped. done is the number of changed notices, also if err is not nil.
func (s *Store) SettleKnown(ctx context.Context, list []Known) (done int, err error) {
	by := map[keys.Partition][]amended{}
	for i := range list {
		k := &list[i]
		after := *k.After
		after.FirstDue = k.DueAtCreation()
		record := AppendRecord(nil, &after)
		p := keys.Partition{Prefix: k.Route, Shard: k.Shard}
		by[p] = append(by[p], amended{key: k.Key, when: string(k.Outcome), record: string(record), was: k.record})
	}

	for p, all := range by {
		for step := range slices.Chunk(all, amendAtOnce) {
			changes, err := s.amend(ctx, p, settleKnown, step)
			if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
				return done, err
			}

			for i := range changes {
				if changes[i].Done {
					done++
				}
			}

			if err != nil {
				return done, err
			}
		}
	}

	return done, nil
}
