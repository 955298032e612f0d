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
	"notifier/internal/notice"
)

//go:embed lua/restore.lua
var restoreSource string

var restoreScript = newScript("restore", restoreSource, true)

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
	if len(s.Formers()) > 0 || s.IsFormer(p.Shard) {
		return s.restoreAmid(ctx, p.Prefix, letters)
	}
	replies, err := s.restore(ctx, p, letters)
	if errors.Is(err, errReplaced) {
		return s.restoreAmid(ctx, p.Prefix, letters)
	}
	return replies, err
}

func (s *Store) restore(ctx context.Context, p keys.Partition, letters []Letter) ([]Reply, error) {
	args := make([]any, 0, 4+6*len(letters))
	args = append(args, s.space.ClaimPrefix(p.Shard), s.space.Wake(), wakeInfo(p), s.timing(p.Prefix))
	for _, l := range letters {
		died := ""
		if !l.Died.IsZero() {
			died = strconv.FormatInt(l.Died.UnixMilli(), 10)
		}
		record := strconv.AppendInt([]byte(`,"made":`), int64(l.Made), 10)
		args = append(args, l.Key, int64(l.Made), died, l.Due.UnixMilli(), l.NextAttempt(), l.AppendTail(record))
	}
	call := creation{Partition: p, args: args}
	cmd := s.knowing(ctx, s.space.Base(p.Shard), func(v *view) *redis.Cmd {
		if p.Shard < v.first {
			return replaced(ctx)
		}
		return s.send(ctx, v, restoreScript, call.keys(s, v), args)
	})
	v, err := s.list(restoreScript.op, cmd)
	if err != nil && !errors.Is(err, ErrUnconfirmed) {
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
		s.arm(ctx, p.Prefix, timers, micros(v[0]))
	}
	if late != nil {
		s.unconfirmed(restoreScript.op, hold(replies, late), late)
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
