package layout

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
	moveOutScript = wire.NewScript("moveout", moveOutSource, false)
	moveInScript  = wire.NewScript("movein", moveInSource, false).Confirmed()
	moveEndScript = wire.NewScript("moveend", moveEndSource, false)
)

// Bounds of a batch that leaves a former shard, so that none of its calls holds Redis
// for long; docs/operations.md has the figures.
const (
	MaxMoving      = 64
	MaxMovingBytes = 1 << 20
)

// Moving is a batch of notices that is on its way from a former shard to another.
type Moving struct {
	Number int64
	From   keys.Partition
	To     int
	What   []string // keys, and what movein.lua takes of each
	Far    string   // by which the shard of another Redis knows where it comes from: see SendOff
}

// Len is how many notices are on their way.
func (l *Moving) Len() int { return len(l.What) / 2 }

// ErrMoving says that another batch is on its way out of a former shard.
var ErrMoving = errors.New("another batch is on its way")

// Staying counts notices that stay where they are for now.
type Staying struct {
	Claimed  int // and those whose claim has lapsed
	Reported int // they await a report
	Soon     int // they are due soon, which only matters to another Redis
	Both     int // another notice of their key waits where they would go
}

// All is how many there are.
func (h Staying) All() int { return h.Claimed + h.Reported + h.Soon + h.Both }

// MoveOut takes notices, MaxMoving at most, out of a former shard, on their way to
// another: what is claimed, or awaits a report, stays, and is counted as held.
func (s *Layout) MoveOut(ctx context.Context, from keys.Partition, to int, ks []string) (l Moving, held Staying, err error) {
	last := int64(0)
	if s.w.Cluster {
		if last, err = s.LastIn(ctx, to, s.space.Tag(from.Shard)); err != nil {
			return l, held, err
		}
	}
	return s.TakeOut(ctx, Moving{From: from, To: to}, []any{s.space.Tag(to), from.Prefix, MaxMovingBytes, last, "", ""}, ks, func(v *View) bool {
		return from.Shard < v.First && to >= v.First // else to is no shard any more, or neither is known yet
	})
}

// LastIn is the last batch from somewhere that a shard knows of; 0 = none yet.
func (s *Layout) LastIn(ctx context.Context, to int, from string) (int64, error) {
	text, err := s.c.HGet(ctx, s.space.Layout(to), "from "+from).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, s.w.Fail("moveout", err)
	}
	text, _, _ = strings.Cut(text, " ")
	last, _ := strconv.ParseInt(text, 10, 64)
	return last, nil
}

// TakeOut is MoveOut with the arguments of moveout.lua behind the claims' prefix, while sure is true
// of what is known.
func (s *Layout) TakeOut(ctx context.Context, l Moving, args []any, ks []string, sure func(*View) bool) (Moving, Staying, error) {
	args = append([]any{s.space.ClaimPrefix(l.From.Shard)}, args...)
	for _, k := range ks {
		args = append(args, k)
	}
	names := append(s.space.States(l.From), s.space.Moving(l.From.Shard))
	v, err := s.w.List(moveOutScript.Op, s.Knowing(ctx, s.space.Base(l.From.Shard), func(v *View) *redis.Cmd {
		if !sure(v) {
			return Outdated(ctx)
		}
		return s.Send(ctx, v, moveOutScript, names, args)
	}))
	var held Staying
	if err != nil {
		return l, held, err
	}
	if len(v) < 4 {
		return l, held, fmt.Errorf("moveout: %w", ErrMoving)
	}
	if len(v)%2 != 0 { // a notice has two parts
		return l, held, fmt.Errorf("moveout: %d answers", len(v))
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

// MoveIn puts a batch where it goes, once, and says which notices are to stay.
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
	stay, err = s.w.Do(ctx, moveInScript, names, args).StringSlice()
	if err != nil {
		return nil, s.w.Fail(moveInScript.Op, err)
	}
	return stay, nil
}

// MoveEnd forgets a batch that has arrived.
func (s *Layout) MoveEnd(ctx context.Context, l Moving, stay []string) error {
	args := []any{l.Number}
	for _, k := range stay {
		args = append(args, k)
	}
	_, err := s.w.Run(ctx, moveEndScript, append(s.space.States(l.From), s.space.Moving(l.From.Shard)), args)
	return err
}

// Outstanding reads the batch that is on its way out of a former shard; nil = none.
func (s *Layout) Outstanding(ctx context.Context, place int) (*Moving, error) {
	l, tag, err := s.OutstandingAt(ctx, place)
	if err != nil || l == nil {
		return nil, err
	}
	if l.To = s.space.Place(tag); l.To < 0 { // a shard that this Store has not learnt of yet
		return nil, errors.Join(s.learn(ctx, s.space.Base(place), s.view.Load()), s.w.Fail("moving", wire.ErrUnavailable))
	}
	return l, nil
}

// OutstandingAt is Outstanding without the place that a tag names.
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

// Finish brings what is on its way out of a former shard where it goes, whoever began.
func (s *Layout) Finish(ctx context.Context, place int) error {
	l, err := s.Outstanding(ctx, place)
	if err != nil || l == nil {
		return err
	}
	stay, err := s.MoveIn(ctx, *l)
	if err != nil {
		return err
	}
	return s.MoveEnd(ctx, *l, stay)
}
