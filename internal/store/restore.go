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

// ErrTaken says that a dead letter cannot be put back because something else is
// kept under its key.
var ErrTaken = errors.New("something else is kept under the key")

// Letter is a dead letter to put back: the notice as it was when it died.
type Letter struct {
	*notice.Notice
	Died time.Time
}

// Restore puts dead letters back under one partition; letters and replies match by
// index. What is a dead letter already is found and not written again, so the call may be
// repeated; under a key that has anything else nothing is written, and the Err
// of the reply, which shows it, is ErrTaken.
func (s *Store) Restore(ctx context.Context, p keys.Partition, letters []Letter) ([]Reply, error) {
	args := make([]any, 1, 1+4*len(letters))
	args[0] = s.space.ClaimPrefix(p.Shard)
	for _, l := range letters {
		record := strconv.AppendInt([]byte(`{"due":`), l.Due.UnixMilli(), 10)
		record = strconv.AppendInt(append(record, `,"made":`...), int64(l.Made), 10)
		args = append(args, l.Key, int64(l.Made), l.Died.UnixMilli(), l.AppendTail(record))
	}
	call := creation{Partition: p, args: args}
	cmd := s.knowing(ctx, s.space.Base(p.Shard), func(v *view) *redis.Cmd { return s.send(ctx, v, restoreScript, call.keys(s, v), args) })
	v, err := s.list(restoreScript.op, cmd)
	if err != nil && !errors.Is(err, ErrUnconfirmed) {
		return nil, err
	}
	late := err
	if len(v) != len(letters)+1 {
		return nil, fmt.Errorf("restore: %d answers to %d dead letters", len(v)-1, len(letters))
	}
	replies := make([]Reply, len(letters))
	for i, l := range letters {
		if v[i+1] == int64(1) {
			n := *l.Notice
			n.Route = p.Prefix
			replies[i] = Reply{Found: Found{Notice: &n, State: notice.Dead, SettledAt: l.Died}, Created: true}
			continue
		}
		x, under := splitPrefix(v[i+1], p.Prefix, call.others)
		f, err := found(l.Key, under, x)
		if err == nil && (f.Made != l.Made || f.State != notice.Dead) {
			err = ErrTaken
		}
		replies[i] = Reply{Found: f, Err: err}
	}
	if late != nil {
		s.unconfirmed(restoreScript.op, hold(replies, late), late)
	}
	return replies, nil
}
