package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/restore.lua
var restoreSource string

var restoreScript = wire.NewScript("restore", WithParts(restoreSource), true).Names("6, #ARGV, 6", "elsewhere").Confirmed()

// ErrTaken is returned if a notice cannot be restored because its key has another notice.
var ErrTaken = errors.New("the key has another notice")

// Letter is a notice to restore: a dead letter, or a pending notice if Died is zero.
type Letter struct {
	*notice.Notice
	Died time.Time
}

// Restore writes notices of one partition back to Redis, for example dead letters from a download. It returns one reply
// for each notice, in the same order. Reply.Created is true if the notice was restored. Otherwise the key usually has a
// notice already: the reply contains it, with the error [ErrTaken] unless it equals the notice to restore. With
// ErrNoDataKey none was restored.
func (s *Store) Restore(ctx context.Context, p keys.Partition, letters []Letter) ([]Reply, error) {
	since := s.Sight()
	if !since.Settled() || s.Layout.isOldShard(p.Shard) {
		return s.restoreWithOld(ctx, p.Prefix, letters)
	}

	replies, err := s.restore(ctx, p, letters, since)
	if errors.Is(err, ErrReplaced) {
		return s.restoreWithOld(ctx, p.Prefix, letters)
	}

	return replies, err
}

// replaceTries is how often a call retries to replace a cancelled notice that changes at the same time.
const replaceTries = 3

func (s *Store) restore(ctx context.Context, p keys.Partition, letters []Letter, since Sight) ([]Reply, error) {
	replies, err := s.putBack(ctx, p, back{letters: letters, since: since})
	if err != nil {
		return nil, err
	}

	// A dead letter replaces its own notice if that was cancelled since.
	for range replaceTries {
		var some []Letter
		var at []int
		var ways []string
		for i := range replies {
			if f := &replies[i].Found; errors.Is(replies[i].Err, ErrTaken) && f.Route == p.Prefix && letters[i].cancelled(f) {
				some, at, ways = append(some, letters[i].after(f)), append(at, i), append(ways, f.record)
			}
		}

		if len(some) == 0 {
			break
		}

		again, err := s.putBack(ctx, p, back{some, ways, since})
		if err != nil {
			return nil, err
		}

		for j, i := range at {
			replies[i] = again[j]
		}
	}

	return replies, nil
}

// cancelled reports whether f is the same dead letter, cancelled later.
func (l *Letter) cancelled(f *Found) bool {
	return !l.Died.IsZero() && f.State == notice.Cancelled && f.Made == l.Made
}

// after returns the letter that replaces its cancelled notice f, with a count of finalizations that
// continues from f.
func (l *Letter) after(f *Found) Letter {
	n := *l.Notice
	since := f.Endings
	if f.Reason != "" { // it was dead before
		since++
	}

	n.Endings = max(n.Endings, since)
	return Letter{&n, l.Died}
}

// back describes letters to restore. ways, if not nil, are the records to replace. since is
// the Sight with which the shards were determined.
type back struct {
	letters []Letter
	ways    []string
	since   Sight
}

var errRestoreMoved = fmt.Errorf("restore: %w", wire.ErrMoved)

// putBack calls restore.lua.
func (s *Store) putBack(ctx context.Context, p keys.Partition, b back) ([]Reply, error) {
	letters := b.letters
	call := creation{Partition: p, args: s.restoreArgs(p, b), since: b.since}
	cmd := s.Layout.Call(ctx, restoreScript, s.space.Base(p.Shard), call.prepare(s))
	if out, refused, err := Rest(letters, cmd.Err(), Reply{Err: errRestoreMoved}, func(some []Letter) ([]Reply, error) {
		return s.restore(ctx, p, some, b.since)
	}); refused {
		return out, err
	}

	if lacksDataKey(cmd.Err()) {
		return nil, ErrNoDataKey
	}

	v, late := s.w.List(restoreScript.Op, cmd)
	if late != nil && !errors.Is(late, wire.ErrUnconfirmed) {
		return nil, late
	}
	if v = s.Foreign(p.Prefix, v); len(v) != len(letters)+1 {
		return nil, wire.BadReply("restore", "%d answers to %d dead letters", len(v)-1, len(letters))
	}

	replies := make([]Reply, len(letters))
	var timers []timer
	for i := range letters {
		r := letters[i].reply(p.Prefix, call.others, v[i+1])
		if replies[i] = r; r.Created && r.State == notice.Scheduled {
			timers = append(timers, timer{key: r.Key, due: r.Due.UnixMilli(), attempt: r.NextAttempt()})
		}
	}

	if s.o.Cluster {
		s.Timers.arm(ctx, p.Prefix, timers, wire.Micros(v[0]))
	}

	if late != nil {
		s.Unconfirmed(restoreScript.Op, markUnconfirmed(replies, late), late)
	}

	return replies, nil
}

// restoreArgs returns the arguments of restore.lua.
func (s *Store) restoreArgs(p keys.Partition, b back) []any {
	args := make([]any, 0, 5+6*len(b.letters))
	args = append(args, s.space.ClaimPrefix(p.Shard), s.space.Wake(), p.Wake(), s.Timers.Mode(p.Prefix),
		dataKeys(b.letters, func(l *Letter) *notice.Content { return &l.Content }))
	for i, l := range b.letters {
		died, way := "", ""
		if b.ways != nil {
			way = b.ways[i]
		}

		if !l.Died.IsZero() {
			died = scoreText(DeadScore(l.Died, l.Cause()))
		}

		record := strconv.AppendInt([]byte(`,"made":`), int64(l.Made), 10)
		args = append(args, l.Key, way, died, l.Due.UnixMilli(), l.NextAttempt(), l.AppendTail(record))
	}

	return args
}

// reply reads the reply of restore.lua for a letter under a prefix. others are the other prefixes that
// the script has checked.
func (l *Letter) reply(prefix string, others []string, v any) Reply {
	due, put := v.(int64)
	if !put {
		x, under := splitPrefix(v, prefix, others)
		f, err := ReadFound(l.Key, under, x)
		if err == nil && !l.is(&f) {
			err = ErrTaken
		}

		return Reply{Found: f, Err: err}
	}

	n := *l.Notice
	n.Route, n.Due = prefix, time.UnixMilli(due).UTC()
	f := Found{Notice: &n, State: notice.Dead, SettledAt: l.Died}
	if l.Died.IsZero() {
		f.State = notice.Scheduled
	}

	return Reply{Found: f, Created: true}
}

// is reports whether f is the letter already, so that there is nothing to restore.
func (l *Letter) is(f *Found) bool {
	if !l.Died.IsZero() {
		return f.Made == l.Made && f.State == notice.Dead
	}
	return f.Made == l.Made || f.Raw == nil && len(l.Content.Diff(&f.Content)) == 0
}
