package store

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// The role of a Redis in a migration: see package move. It is stored in notifier:meta, with a copy
// in each shard that the guard compares, like the number of shards. An instance learns a new role
// with its first guarded script on a changed shard, if not earlier, and without a migration no script
// checks the keys of notices. Claims and settles ignore the role.

// SideState says which calls a Redis accepts.
type SideState string

// The states. Each change has a higher epoch.
const (
	SideOpen    SideState = "open"    // all calls
	SideLeaving SideState = "leaving" // all calls except on notices that have moved
	SideLeft    SideState = "left"    // no new notices and no changes
	SideComing  SideState = "coming"  // no new notices and no changes
	SideOpened  SideState = "opened"  // all calls except on notices that have not moved yet
)

// Side is the role of a Redis in one migration.
type Side struct {
	Epoch int
	State SideState
	ID    string // of the migration
	Other string // the other Redis: see Home
}

// String returns the stored form. ParseSide is its inverse.
func (s Side) String() string {
	if s.Epoch == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s %s %s", s.Epoch, s.State, s.ID, s.Other)
}

// ParseSide parses a side; ok is false if the text is invalid.
func ParseSide(text string) (side Side, ok bool) {
	side.State = SideOpen
	words := strings.Fields(text)
	if len(words) != 4 {
		return side, text == ""
	}

	n, err := strconv.Atoi(words[0])
	return Side{n, SideState(words[1]), words[2], words[3]}, err == nil && n > 0
}

// Closed reports whether new notices and changes are refused.
func (s Side) Closed() bool { return s.State == SideLeft || s.State == SideComing }

// Gives reports whether notices move, or have moved, to the other side.
func (s Side) Gives() bool { return s.State == SideLeaving || s.State == SideLeft }

// Sorts reports whether calls on some notices are refused.
func (s Side) Sorts() bool { return s.State != "" && s.State != SideOpen }

//go:embed lua/lib/elsewhere.lua
var elsewhereSource string

var elsewhereCode = wire.Prelude(elsewhereSource)

// guard returns the start of a script during a migration, after the general guard.
func (s Side) guard(sc *wire.Script) string {
	names, hash := sc.Named()
	if !s.Sorts() || names == "" {
		return ""
	}

	return strings.NewReplacer("<names>", names, "<hash>", hash).Replace(elsewhereCode)
}

// Side returns the known role of this Redis.
func (s *Layout) Side() Side {
	if side := s.side.Load(); side != nil {
		return *side
	}
	return Side{State: SideOpen}
}

// sided records the side in Redis, and reports whether it has changed.
func (s *Layout) sided(text string) bool {
	side, ok := ParseSide(text)
	if !ok || side.Epoch <= s.Side().Epoch {
		return false
	}

	s.side.Store(&side)
	return true
}

// still reports whether the known view of a shard is current. A caller that refuses calls by itself
// must check now and then.
func (s *Layout) still(ctx context.Context, base string, v *LayoutView) bool {
	state, err := s.c.HGet(ctx, keys.ShardKeys(base).Layout(), "state").Result()
	return err != nil || state == v.State
}

//go:embed lua/side.lua
var sideSource string

// A full Redis must be able to learn that it accepts calls again.
var sideScript = wire.NewScript("side", sideSource, false).Anywhere()

// ErrOvertaken is returned if another migration has changed a side.
var ErrOvertaken = fmt.Errorf("%w: another migration has begun", wire.ErrUnavailable)

// SetSide changes the role of this Redis in a migration from was to next, and notifies all instances. It returns next
// with its new epoch, which each change increments. If another migration has changed the role, SetSide writes nothing
// and returns [ErrOvertaken]. fields are names and values to store together with the role in the hash notifier:meta.
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

// Home returns the unique id of this Redis and namespace. The first call creates it.
func (s *Layout) Home(ctx context.Context) (string, error) {
	name := s.space.Meta()
	if err := s.c.HSetNX(ctx, name, "home", rand.Text()).Err(); err != nil {
		return "", s.w.Fail("home", err)
	}

	home, err := s.c.HGet(ctx, name, "home").Result()
	return home, s.w.Wrapped("home", err)
}

// cameFrom returns the start of the last migration to this Redis, and the number of shards of its
// source.
func (s *Layout) cameFrom() (at time.Time, shards int) {
	text, _ := s.came.Load().(string)
	var ms int64
	if _, err := fmt.Sscan(text, &ms, &shards); err != nil {
		return time.Time{}, 0
	}

	return time.UnixMilli(ms), shards
}

// resharded returns the start of the last reshard.
func (s *Layout) resharded() time.Time { return time.Unix(s.since.Load(), 0) }

// Right checks again whether the layout is valid, if it was not.
func (s *Layout) Right(ctx context.Context) error {
	if !s.wrong.Load() {
		return nil
	}
	return s.Known(ctx)
}
