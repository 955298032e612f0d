package store

import (
	"context"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// Again returns the notice for a resend after its finalization with the given number: the same
// content, id and attempts, with the ladder from its start.
func Again(n *notice.Notice, ending int) *notice.Notice {
	x := *n
	x.Redriven, x.Endings, x.Resend, x.Resent = x.AttemptsMade, ending, x.Resend+1, ending
	x.Reason, x.Replay, x.Locked, x.AwaitsReport, x.Waits = "", "", 0, false, notice.Waits{}
	return &x
}

// Resend schedules a delivered or dead notice again, due now. Nothing is changed if the notice
// differs from f, has moved, or its key has a producer's timer; call Find again then. x changes when it expires.
func (s *Store) Resend(ctx context.Context, f Found, x notice.Expiry) (Change, error) {
	n := Again(f.Notice, f.Ending())
	a := amended{key: n.Key, when: string(When{Expires: x}.append(nil)), record: string(AppendRecord(nil, n)), was: f.record}
	return s.amendOne(ctx, keys.Partition{Prefix: n.Route, Shard: f.Shard}, resend, a)
}
