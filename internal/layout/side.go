package layout

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// How a Redis stands to another one that notices move to, or come from: see package
// move. It stands in notifier:meta, and, as the count of shards does, a copy in each
// shard, which is part of what the guard compares: from the first step on that anybody
// takes in a shard whose copy has changed, he knows. So nothing is looked at on the way of
// a notice while nothing moves. What claims and settles does not ask for the side.

// SideState says what a Redis takes.
type SideState string

// The states. They only follow one another with a higher epoch.
const (
	SideOpen    SideState = "open"    // all
	SideLeaving SideState = "leaving" // all but what is about notices that have moved
	SideLeft    SideState = "left"    // nothing new, and no changes
	SideComing  SideState = "coming"  // the same
	SideOpened  SideState = "opened"  // all but what is about notices that are still to come
)

// Side is one, of one migration.
type Side struct {
	Epoch int
	State SideState
	ID    string // of the migration
	Other string // the other Redis: see Home
}

// String spells it as it stands in Redis. ParseSide is its inverse.
func (s Side) String() string {
	if s.Epoch == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s %s %s", s.Epoch, s.State, s.ID, s.Other)
}

// ParseSide reads a side; ok is false for what is none.
func ParseSide(text string) (side Side, ok bool) {
	side.State = SideOpen
	words := strings.Fields(text)
	if len(words) != 4 {
		return side, text == ""
	}
	n, err := strconv.Atoi(words[0])
	return Side{n, SideState(words[1]), words[2], words[3]}, err == nil && n > 0
}

// Closed reports whether nothing new is taken, and no changes.
func (s Side) Closed() bool { return s.State == SideLeft || s.State == SideComing }

// Sorts reports whether calls about some notices are refused.
func (s Side) Sorts() bool { return s.State != "" && s.State != SideOpen }

//go:embed lua/elsewhere.lua
var elsewhereSource string

var elsewhereCode = wire.Prelude(elsewhereSource)

// guard is what a script begins with, behind the guard of all, while notices move.
func (s Side) guard(sc *wire.Script) string {
	names, hash := sc.Named()
	if !s.Sorts() || names == "" {
		return ""
	}
	return strings.NewReplacer("<names>", names, "<hash>", hash).Replace(elsewhereCode)
}

// Side is how this Redis stands, as far as this Store knows.
func (s *Layout) Side() Side {
	if side := s.side.Load(); side != nil {
		return *side
	}
	return Side{State: SideOpen}
}

// sided notes what Redis says of its side, and reports whether that is new.
func (s *Layout) sided(text string) bool {
	side, ok := ParseSide(text)
	if !ok || side.Epoch <= s.Side().Epoch {
		return false
	}
	s.side.Store(&side)
	return true
}

// Moved returns the command of a call that is not sent, because this Redis takes no call
// of its kind. Its error is [wire.ErrMoved].
func Moved(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(wire.ErrMoved)
	return cmd
}

// still reports whether what is known of a shard is what it says. Who is refused without
// having been asked must ask now and then.
func (s *Layout) still(ctx context.Context, base string, v *View) bool {
	state, err := s.c.HGet(ctx, keys.ShardKeys(base).Layout(), "state").Result()
	return err != nil || state == v.State
}

// ElsewhereIn is which of the keys that were named are on the other side; nil = the
// error says something else.
func ElsewhereIn(err error) map[int]bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return nil
	}
	text, ok := strings.CutPrefix(wire.Cause(answer).Error(), "ELSEWHERE ")
	if !ok {
		return nil
	}
	which := map[int]bool{}
	for _, word := range strings.Fields(text) {
		if n, err := strconv.Atoi(word); err == nil {
			which[n-1] = true
		}
	}
	return which
}

// Without returns the list without the entries whose index is in which.
func Without[T any](list []T, which map[int]bool) []T {
	var rest []T
	for i := range list {
		if !which[i] {
			rest = append(rest, list[i])
		}
	}
	return rest
}

//go:embed lua/side.lua
var sideSource string

// What is full must still learn that it takes calls again.
var sideScript = wire.NewScript("side", sideSource, false).Anywhere()

// ErrOvertaken says that another mover has changed a side.
var ErrOvertaken = fmt.Errorf("%w: another migration has begun meanwhile", wire.ErrUnavailable)

// SetSide changes how this Redis stands from was to next, with the next epoch, in
// notifier:meta and then in each shard, and publishes it to all instances. fields are
// written beside it. It returns the side as it is written. It is ErrUnavailable if the side
// is not was any more.
func (s *Layout) SetSide(ctx context.Context, was, next Side, fields ...any) (Side, error) {
	next.Epoch = was.Epoch + 1
	done, err := s.w.Int(ctx, sideScript, []string{s.space.Meta()}, append([]any{was.Epoch, next.String()}, fields...))
	if err != nil {
		return was, err
	}
	if done == 0 {
		return was, ErrOvertaken
	}
	s.side.Store(&next)
	return next, s.Spread(ctx)
}

// Home names this Redis, with its namespace, apart from all others. It is chosen when it
// is first asked for.
func (s *Layout) Home(ctx context.Context) (string, error) {
	name := s.space.Meta()
	if err := s.c.HSetNX(ctx, name, "home", rand.Text()).Err(); err != nil {
		return "", s.w.Fail("home", err)
	}
	home, err := s.c.HGet(ctx, name, "home").Result()
	return home, s.w.Wrapped("home", err)
}

// Came is when the last migration to this Redis began; zero if there was none.
func (s *Layout) Came() time.Time {
	at, _ := s.CameFrom()
	return at
}

// CameFrom is the same, with the number of shards of the other side.
func (s *Layout) CameFrom() (at time.Time, shards int) {
	text, _ := s.came.Load().(string)
	var ms int64
	if _, err := fmt.Sscan(text, &ms, &shards); err != nil {
		return time.Time{}, 0
	}
	return time.UnixMilli(ms), shards
}

// Resharded is when the last reshard began to take the place of the shards before.
func (s *Layout) Resharded() time.Time { return time.Unix(s.since.Load(), 0) }

// Right asks again, where the layout was wrong, whether it is.
func (s *Layout) Right(ctx context.Context) error {
	if !s.wrong.Load() {
		return nil
	}
	return s.Known(ctx)
}
