package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// JobStep is a change of a job of package jobs.
type JobStep struct {
	Op Amendment // Cancel, Redrive or Purge
	ID string    // of the job, which begins with job_
	// Began is when the job began. A redrive or purge takes no notice that died after it.
	Began time.Time
}

// Seen is a notice to change, with the record that was read.
type Seen struct{ Key, Record string }

// AmendStep changes at most 200 notices of a partition. A cancel takes only scheduled notices that have not changed since
// they were read, a redrive none that the job has taken before. The number of changed notices is added to the job's count
// in the same step. The error is wire.ErrMoved if a migration has moved one of them.
func AmendStep(ctx context.Context, s *Store, p keys.Partition, step JobStep, list []Seen) ([]Change, error) {
	all, last := make([]amended, len(list)), strconv.FormatInt(step.Began.UnixMilli(), 10)
	for i, x := range list {
		all[i] = amended{key: x.Key, when: string(When{}.append(nil)), record: step.ID, was: last}
		if step.Op == Cancel {
			all[i].was = x.Record
		}
	}

	changes, err := s.amend(ctx, p, step.Op, all)
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) { // the next confirmed write of the shard confirms this one, too
		return nil, err
	}

	for i := range changes {
		if changes[i].moved {
			return nil, fmt.Errorf("%s: %s: %w", step.Op, list[i].Key, wire.ErrMoved)
		}
	}

	return changes, nil
}
