package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/restore.lua
var restoreSource string

var restoreScript = wire.NewScript("restore", restoreSource, true).Names("5, #ARGV, 6", "elsewhere").Confirmed()

// ErrTaken says that a notice cannot be put back because something else is kept
// under its key.
var ErrTaken = errors.New("something else is kept under the key")

// Letter is a notice to put back: a dead letter as it was when it died, or, where
// Died is zero, what was pending, to be due when it was.
type Letter struct {
	*notice.Notice
	Died time.Time
}

// Restore puts notices back under one partition; letters and replies match by
// index. What is there already is found and not written again, so the call may be
// repeated: a dead letter as long as it is one, and what was pending whatever has become
// of it, or if a notice of the same content is kept. Under a key that has anything else
// nothing is written, and the Err of the reply, which shows it, is ErrTaken.
func (s *Store) Restore(ctx context.Context, p keys.Partition, letters []Letter) ([]Reply, error) {
	since := s.Forgot()
	if len(s.Formers()) > 0 || s.IsFormer(p.Shard) {
		return s.restoreAmid(ctx, p.Prefix, letters)
	}
	replies, err := s.restore(ctx, p, letters, since)
	if errors.Is(err, layout.ErrReplaced) {
		return s.restoreAmid(ctx, p.Prefix, letters)
	}
	return replies, err
}

// giveWays is how often a call looks again at what was cancelled, which may change
// meanwhile.
const giveWays = 3

func (s *Store) restore(ctx context.Context, p keys.Partition, letters []Letter, since int64) ([]Reply, error) {
	replies, err := s.putBack(ctx, p, back{letters: letters, since: since})
	if err != nil {
		return nil, err
	}
	for range giveWays {
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

// cancelled reports whether what is kept is the same dead letter, cancelled since.
func (l *Letter) cancelled(f *Found) bool {
	return !l.Died.IsZero() && f.State == notice.Cancelled && f.Made == l.Made
}

// after is the letter in whose place f was cancelled: its next ending is counted on
// from that one.
func (l *Letter) after(f *Found) Letter {
	n := *l.Notice
	since := f.Endings
	if f.Reason != "" { // it was dead before
		since++
	}
	n.Endings = max(n.Endings, since)
	return Letter{&n, l.Died}
}

// back is what is put back: ways, if not nil, are the records that give way, and since is
// how often moves had been forgotten when it was found where it goes.
type back struct {
	letters []Letter
	ways    []string
	since   int64
}

// putBack is restore where what gives way is known.
func (s *Store) putBack(ctx context.Context, p keys.Partition, b back) ([]Reply, error) {
	letters, ways := b.letters, b.ways
	args := make([]any, 0, 4+6*len(letters))
	args = append(args, s.space.ClaimPrefix(p.Shard), s.space.Wake(), p.Wake(), s.timing(p.Prefix))
	for i, l := range letters {
		died, way := "", ""
		if ways != nil {
			way = ways[i]
		}
		if !l.Died.IsZero() {
			died = strconv.FormatInt(l.Died.UnixMilli(), 10)
		}
		record := strconv.AppendInt([]byte(`,"made":`), int64(l.Made), 10)
		args = append(args, l.Key, way, died, l.Due.UnixMilli(), l.NextAttempt(), l.AppendTail(record))
	}
	call := creation{Partition: p, args: args}
	cmd := s.Knowing(ctx, s.space.Base(p.Shard), func(v *layout.View) *redis.Cmd {
		switch {
		case s.IsOld(v, p.Shard, b.since):
			return layout.Replaced(ctx)
		case v.Side.Closed():
			return layout.Moved(ctx)
		}
		return s.Send(ctx, v, restoreScript, call.keys(s, v), args)
	})
	if which := layout.ElsewhereIn(cmd.Err()); which != nil {
		return s.restoreRest(ctx, p, b, which)
	}
	v, err := s.w.List(restoreScript.Op, cmd)
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return nil, err
	}
	late := err
	if len(v) != len(letters)+1 {
		return nil, fmt.Errorf("restore: %d answers to %d dead letters", len(v)-1, len(letters))
	}
	replies := make([]Reply, len(letters))
	var timers []timer
	over := overAll
	if s.adopts(p.Prefix) {
		over = overNothing
	}
	for i, l := range letters {
		if due, put := v[i+1].(int64); put {
			n := *l.Notice
			n.Route, n.Due = p.Prefix, time.UnixMilli(due).UTC()
			f := Found{Notice: &n, State: notice.Dead, SettledAt: l.Died}
			if l.Died.IsZero() {
				f.State = notice.Scheduled
				timers = append(timers, timer{n.Key, due, n.NextAttempt(), over})
			}
			replies[i] = Reply{Found: f, Created: true}
			continue
		}
		x, under := splitPrefix(v[i+1], p.Prefix, call.others)
		f, err := found(l.Key, under, x)
		if err == nil && !l.is(&f) {
			err = ErrTaken
		}
		replies[i] = Reply{Found: f, Err: err}
	}
	if s.o.Cluster {
		s.arm(ctx, p.Prefix, timers, wire.Micros(v[0]))
	}
	if late != nil {
		s.unconfirmed(restoreScript.Op, hold(replies, late), late)
	}
	return replies, nil
}

// is reports whether what is kept makes it needless to put l back.
func (l *Letter) is(f *Found) bool {
	if !l.Died.IsZero() {
		return f.Made == l.Made && f.State == notice.Dead
	}
	return f.Made == l.Made || f.Raw == nil && len(l.Content.Diff(&f.Content)) == 0
}

// restoreRest puts back those that are not on the other side of a migration.
func (s *Store) restoreRest(ctx context.Context, p keys.Partition, b back, which map[int]bool) ([]Reply, error) {
	letters := b.letters
	var rest []Reply
	if some := layout.Without(letters, which); len(some) > 0 {
		var err error
		if rest, err = s.restore(ctx, p, some, b.since); err != nil {
			return nil, err
		}
	}
	out := make([]Reply, len(letters))
	for i := range out {
		if which[i] {
			out[i].Err = fmt.Errorf("restore: %w", wire.ErrMoved)
			continue
		}
		out[i], rest = rest[0], rest[1:]
	}
	return out, nil
}
