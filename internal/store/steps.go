package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/moveout.lua
var moveOutSource string

//go:embed lua/movein.lua
var moveInSource string

//go:embed lua/moveend.lua
var moveEndSource string

var (
	moveOutScript = wire.NewScript("moveout", WithParts(moveOutSource), false)
	moveInScript  = wire.NewScript("movein", WithParts(moveInSource), false).Confirmed()
	moveEndScript = wire.NewScript("moveend", WithParts(moveEndSource), false)
)

// Bounds of a batch that leaves an old shard, so that no call blocks Redis for long;
// docs/upgrade.md has the measurements.
const (
	MaxMoving      = 64
	maxMovingBytes = 1 << 20
)

// Moving is a batch of notices that is being moved from an old shard to another shard.
type Moving struct {
	Number int64
	From   keys.Partition
	To     int
	What   []string // keys, and the arguments of movein.lua for each
	Far    string   // names the source in a shard of another Redis: see package move
}

// Len returns the number of notices in the batch.
func (l *Moving) Len() int { return len(l.What) / 2 }

// ErrMoving is returned if an old shard has another unfinished batch.
var ErrMoving = errors.New("another batch is on its way")

// Staying counts notices that are not moved for now.
type Staying struct {
	Claimed  int // includes expired claims
	Reported int // awaiting a report
	Soon     int // due soon, which matters only for a move to another Redis
	Both     int // the target has another notice of their key
}

// All returns the total.
func (h Staying) All() int { return h.Claimed + h.Reported + h.Soon + h.Both }

// MoveOut takes up to MaxMoving notices out of an old shard, into a batch for shard to. Claimed
// notices and those that await a report stay, and are counted in held.
func (s *Layout) MoveOut(ctx context.Context, from keys.Partition, to int, ks []string) (l Moving, held Staying, err error) {
	last := int64(0)
	if s.w.Cluster {
		if last, err = s.LastIn(ctx, to, s.space.Tag(from.Shard)); err != nil {
			return l, held, err
		}
	}

	return s.TakeOut(ctx, Moving{From: from, To: to}, []any{s.space.Tag(to), from.Prefix, "", last, "", ""}, ks,
		func(v *LayoutView) bool {
			return from.Shard < v.first && to >= v.first // otherwise to is no longer a current shard, or neither is known yet
		})
}

// LastIn returns the last batch from a source that a shard has imported; 0 = none.
func (s *Layout) LastIn(ctx context.Context, to int, from string) (int64, error) {
	text, err := s.c.HGet(ctx, s.space.Layout(to), "from "+from).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, s.w.Fail("moveout", err)
	}

	text, _, _ = strings.Cut(text, " ")
	last, _ := strconv.ParseInt(text, 10, 64)
	return last, nil
}

// TakeOut is MoveOut with the arguments of moveout.lua from the target's tag to the mode of timers; it sets the maximum of bytes. It is
// sent only while sure returns true for the known view.
func (s *Layout) TakeOut(ctx context.Context, l Moving, args []any, ks []string, sure func(*LayoutView) bool) (Moving, Staying, error) {
	args = append([]any{s.space.ClaimPrefix(l.From.Shard)}, args...)
	args = append(args, s.space.Wake(), l.From.Wake())
	args = append(args, wire.Texts(ks)...)

	names := append(s.space.States(l.From), s.space.Moving(l.From.Shard))
	v, _, err := s.w.Replies(l.From.Shard).Reply(maxMovingBytes, func(bytes int) ([]any, error) {
		args[3] = bytes
		return s.w.List(moveOutScript.Op, s.Call(ctx, moveOutScript, s.space.Base(l.From.Shard), func(v *LayoutView) ([]string, []any, error) {
			if !sure(v) {
				return nil, nil, ErrOutdated
			}
			return names, args, nil
		}))
	})
	var held Staying
	if err != nil {
		return l, held, err
	}
	if len(v) < 4 {
		return l, held, fmt.Errorf("moveout: %w", ErrMoving)
	}
	if len(v)%2 != 0 { // each notice has two parts
		return l, held, wire.BadReply("moveout", "%d answers", len(v))
	}

	number := func(i int) int {
		n, _ := v[i].(int64)
		return int(n)
	}
	l.Number, held = int64(number(0)), Staying{Claimed: number(1), Reported: number(2), Soon: number(3)}
	for _, x := range v[4:] {
		text, _ := x.(string)
		l.What = append(l.What, text)
	}

	return l, held, nil
}

// MoveIn stores a batch in its target, once, and returns the notices that are to stay in the
// source.
func (s *Layout) MoveIn(ctx context.Context, l Moving) (stay []string, err error) {
	p := keys.Partition{Prefix: l.From.Prefix, Shard: l.To}
	names := s.space.States(p)
	if !s.w.Cluster {
		names = append(names, s.space.Moving(l.From.Shard))
	}

	args := []any{s.space.Tag(l.From.Shard), l.Number, s.space.Wake(), p.Wake(), ""}
	for i := range l.What {
		args = append(args, &l.What[i])
	}

	return s.PutIn(ctx, names, args)
}

// PutIn is MoveIn with the keys and arguments of movein.lua.
func (s *Layout) PutIn(ctx context.Context, names []string, args []any) (stay []string, err error) {
	stay, err = s.Do(ctx, moveInScript, names, args).StringSlice()
	if err != nil {
		return nil, s.w.Fail(moveInScript.Op, err)
	}

	return stay, nil
}

// MoveEnd deletes a batch that has been stored in its target.
func (s *Layout) MoveEnd(ctx context.Context, l Moving, stay []string) error {
	args := append([]any{l.Number, s.space.Wake(), l.From.Wake()}, wire.Texts(stay)...)
	cmd := s.Do(ctx, moveEndScript, append(s.space.States(l.From), s.space.Moving(l.From.Shard)), args)
	return s.w.Wrapped(moveEndScript.Op, cmd.Err())
}

// outstanding returns the unfinished batch of an old shard; nil = none.
func (s *Layout) outstanding(ctx context.Context, place int) (*Moving, error) {
	l, tag, err := s.OutstandingAt(ctx, place)
	if err != nil || l == nil {
		return nil, err
	}
	if l.To = s.space.Place(tag); l.To < 0 { // a shard that is not known yet
		return nil, errors.Join(s.learn(ctx, s.space.Base(place), s.view.Load()), s.w.Fail("moving", wire.ErrUnavailable))
	}

	return l, nil
}

// OutstandingAt is outstanding with the tag of the target instead of its place.
func (s *Layout) OutstandingAt(ctx context.Context, place int) (l *Moving, tag string, err error) {
	all, err := s.c.HGetAll(ctx, s.space.Moving(place)).Result()
	if err != nil {
		return nil, "", s.w.Fail("moving", err)
	}

	head, some := all[""]
	if !some {
		return nil, "", nil
	}

	number, rest, _ := strings.Cut(head, " ")
	tag, prefix, _ := strings.Cut(rest, " ")
	l = &Moving{From: keys.Partition{Prefix: prefix, Shard: place}}
	if l.Number, err = strconv.ParseInt(number, 10, 64); err != nil || prefix == "" {
		return nil, "", fmt.Errorf("%w: %s begins with %q, which no version of this program writes", ErrLayout, s.space.Moving(place), head)
	}

	for k, what := range all {
		if k != "" {
			l.What = append(l.What, k, what)
		}
	}

	return l, tag, nil
}

// Finish completes the unfinished batch of an old shard, whichever instance started it.
func (s *Layout) Finish(ctx context.Context, place int) error {
	l, err := s.outstanding(ctx, place)
	if err != nil || l == nil {
		return err
	}

	stay, err := s.MoveIn(ctx, *l)
	if err != nil {
		return err
	}

	return s.MoveEnd(ctx, *l, stay)
}

// bring moves one notice out of an old shard to its shard. A notice that is claimed by now, or
// is not in the old shard any more, stays where it is.
func (s *Layout) bring(ctx context.Context, from keys.Partition, key string) error {
	l, _, err := s.MoveOut(ctx, from, s.space.Shard(key), []string{key})
	if err != nil && !errors.Is(err, ErrMoving) {
		return err
	}
	if err == nil && l.Len() == 0 {
		return nil
	}

	return s.Finish(ctx, from.Shard)
}
