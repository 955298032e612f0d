package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// The gate: where a notice is, and whether a call may change it now. A notice is in the shard of its key, or, until
// movers have moved it, in one of the old shards that a reshard has replaced, or in the other Redis of a migration.
// Claims and settles do not ask: they concern notices that a shard holds.

// access is the need of a call for notices in this Redis.
type access int

const (
	// accessAny is for notices that the call has found here.
	accessAny access = iota
	// accessOpen is for calls that a Redis refuses before or after all notices move. The scripts themselves
	// refuse notices that are on the other side.
	accessOpen
	// accessWhole is for calls that need all notices to be in this Redis.
	accessWhole
)

// passage is a call on notices of one shard, as the gate sees it.
type passage struct {
	shard   int
	access  access
	creates bool // only a current shard gets new notices
	since   Sight
}

// refusal returns an error if a call may not be sent under the known layout v.
func (s *Layout) refusal(v *LayoutView, e passage) error {
	switch {
	case e.creates && s.places.forgot.Load() != e.since.lost:
		return ErrLost
	case e.creates && e.shard < v.first:
		return ErrReplaced
	}

	return v.Side.refusal(e.access)
}

// refusal returns wire.ErrMoved if a call with that need is refused in this role.
func (s Side) refusal(need access) error {
	if need == accessOpen && s.Closed() || need == accessWhole && s.Sorts() {
		return wire.ErrMoved
	}
	return nil
}

// Sight is the knowledge of a store about moves between shards. A caller takes it before it looks for notices.
type Sight struct {
	places int
	open   int   // old shards that may hold notices
	lost   int64 // Layout.lostMoves
}

// Sight returns the present knowledge.
func (s *Store) Sight() Sight { return s.Layout.sight() }

func (s *Layout) sight() Sight {
	return Sight{s.space.Places(), len(s.OldShards()), s.lostMoves()}
}

// Settled reports whether no old shard holds notices. If a pass over all shards begins and ends with the same settled
// Sight, no notice has moved past it.
func (a Sight) Settled() bool { return a.open == 0 }

// mayMove reports whether a notice that was not found in a place, which was determined after the Sight a, may be in
// another one by now.
func (s *Layout) mayMove(a Sight, place int) bool {
	return s.isOldShard(place) || a.open == 0 && len(s.OldShards()) > 0
}

// Call describes a call of a script on notices of one shard: see [Store.Change].
type Call struct {
	Shard int
	// Creates is true if the script creates notices. Then the error is [ErrReplaced] if the shard is an old one, or
	// [ErrLost] if Redis has lost moves of notices after Since.
	Creates bool
	Since   Sight
	// Whole is true if the call needs all notices in this Redis: during a migration the error is [wire.ErrMoved].
	Whole bool
	// Prepare returns the script's keys and arguments under the known layout. It may be called more than once.
	Prepare func(v *LayoutView) (ks []string, args []any)
}

// Change sends a script that changes notices, unless the gate refuses the call.
func (s *Store) Change(ctx context.Context, sc *wire.Script, c Call) *redis.Cmd {
	e := passage{shard: c.Shard, creates: c.Creates, since: c.Since}
	if c.Whole {
		e.access = accessWhole
	}

	return s.Layout.Call(ctx, sc, s.space.Base(c.Shard), func(v *LayoutView) ([]string, []any, error) {
		if err := s.Layout.refusal(v, e); err != nil {
			return nil, nil, err
		}

		ks, args := c.Prepare(v)
		return ks, args, nil
	})
}

// ErrLost is an [ErrReplaced] that is returned if Redis has lost moves of notices since the caller looked for them. The
// caller may look again.
var ErrLost = fmt.Errorf("%w, and Redis has lost moves of notices", ErrReplaced)

// Whole returns wire.ErrMoved if notices may be on the other side of a migration.
func (s *Store) Whole() error { return s.Layout.Side().refusal(accessWhole) }

// Left reports whether all notices have moved, or are about to, to another Redis, and none is scheduled here.
func (s *Store) Left() bool { return s.Layout.Side().State == SideLeft }

// HasEvents reports whether the expired events of timers lead to claims in a shard: an old shard is only swept.
func (s *Layout) HasEvents(shard int) bool { return !s.isOldShard(shard) }

// Where returns the place of each notice, which for a missing notice is its current shard.
func (s *Store) Where(ctx context.Context, ks []string) ([]int, error) {
	now, old, err := s.inOld(ctx, ks, false)
	if err != nil {
		return nil, err
	}

	at := make([]int, len(ks))
	for i, k := range ks {
		if place, ok := old[i]; ok {
			at[i] = place
		} else {
			at[i] = now.Shard(k)
		}
	}

	return at, nil
}

// Stranded reports, for each key, whether its notice is still in an old shard, also one that is known to be empty. A
// writer that does not know of the reshard, such as an old copy of deploy/schedule.lua, may have written there since.
// Where finds such a notice only when movers have moved it.
func (s *Store) Stranded(ctx context.Context, ks []string) ([]bool, error) {
	_, old, err := s.inOld(ctx, ks, true)
	if err != nil {
		return nil, err
	}

	found := make([]bool, len(ks))
	for i := range old {
		found[i] = true
	}

	return found, nil
}

// inOld returns the old shard of each notice that is still in one, by index in ks, and the shards to which that
// applies. It checks also old shards that are known to be empty if all is true.
func (s *Store) inOld(ctx context.Context, ks []string, all bool) (now keys.Space, old map[int]int, err error) {
	for {
		now = s.space.Now()
		open := s.Layout.OldShards()
		if !all && len(open) == 0 {
			return now, nil, nil
		}

		old, err = s.Layout.findInOld(ctx, now, ks, func(place int) bool { return all || slices.Contains(open, place) })
		if err != nil || s.space.First() == now.First() {
			return now, old, err
		}
	}
}

// place is Where for one notice.
func (s *Store) place(ctx context.Context, key string) (int, error) {
	if len(s.Layout.OldShards()) == 0 {
		return s.space.Shard(key), nil
	}

	at, err := s.Where(ctx, []string{key})
	if err != nil {
		return 0, err
	}

	return at[0], nil
}

// follow calls do with the place of a notice, and again if do returns [ErrNotFound] because the notice has been moved. It
// returns the last error of do, or wire.ErrMoved if the notice may be on the other side of a migration.
func (s *Store) follow(ctx context.Context, key string, do func(shard int) error) error {
	for range maxMoves {
		since, side := s.Sight(), s.Layout.Side()
		at, err := s.place(ctx, key)
		if err != nil {
			return err
		}
		if err = do(at); !errors.Is(err, ErrNotFound) {
			return err
		}
		if s.Layout.mayMove(since, at) {
			continue
		}
		if err = s.absent(ctx, at, key); !errors.Is(err, ErrNotFound) || !side.Sorts() && !s.Layout.Side().Sorts() {
			return err
		}
		// It may have arrived since the first check, or a change of side may have deleted its mark.
		if err = do(at); !errors.Is(err, ErrNotFound) || s.Layout.Side().Epoch == side.Epoch {
			return err
		}
	}
	return fmt.Errorf("%s: %w", key, ErrNotFound)
}

// maxMoves bounds how often a call follows a notice that is being moved.
const maxMoves = 20

// absent returns the error for a notice that a shard does not have. It is ErrMoved if the notice
// may be on the other side of a migration.
func (s *Store) absent(ctx context.Context, shard int, key string) error {
	v := s.Layout.view.Load()
	switch {
	case v == nil || !v.Side.Sorts():
	case v.Side.Closed():
		return fmt.Errorf("%s: %w", key, wire.ErrMoved)
	default:
		there, err := s.c.HExists(ctx, s.space.Elsewhere(shard), key).Result()
		if err != nil {
			return s.w.Fail("elsewhere", err)
		}
		if there {
			return fmt.Errorf("%s: %w", key, wire.ErrMoved)
		}
	}

	return fmt.Errorf("%s: %w", key, ErrNotFound)
}

// CameSince reports whether a migration to this Redis began after a time.
func (s *Store) CameSince(at time.Time) bool {
	came, _ := s.Layout.cameFrom()
	return at.Before(came)
}

// Under returns the partition that stores the notices of the first n keys: p, or one of another prefix in its shard,
// where an instance with other routes has stored them.
func (s *Store) Under(ctx context.Context, p keys.Partition, ks []string) (at keys.Partition, n int, err error) {
	others := s.Layout.others(p.Prefix)
	if len(others) == 0 || len(ks) == 0 {
		return p, len(ks), nil
	}

	under, err := s.Layout.Locate(ctx, p.Shard, append([]string{p.Prefix}, others...), ks)
	if err != nil {
		return p, 0, err
	}

	for n = 1; n < len(ks) && under[n] == under[0]; {
		n++
	}

	if under[0] != "" {
		p.Prefix = under[0]
	}

	return p, n, nil
}

// Rest handles the error of a call on the notices of list. refused is true if the gate has refused the call because some
// of the notices are on the other side of a migration. Then Rest has sent the others again, and out has the result of
// each, which for the refused ones is moved. With [wire.ErrUnconfirmed], out has the results, too.
func Rest[T, R any](list []T, err error, moved R, send func([]T) ([]R, error)) (out []R, refused bool, _ error) {
	which := elsewhereIn(err)
	if which == nil {
		return nil, false, nil
	}

	var some []T
	for i := range list {
		if !which[i] {
			some = append(some, list[i])
		}
	}

	var rest []R
	var late error
	if len(some) > 0 {
		if rest, late = send(some); late != nil && !errors.Is(late, wire.ErrUnconfirmed) {
			return nil, true, late
		}
	}

	out = make([]R, len(list))
	for i := range out {
		if which[i] {
			out[i] = moved
			continue
		}
		out[i], rest = rest[0], rest[1:]
	}

	return out, true, late
}

// elsewhereIn returns which of a call's keys are on the other side; nil if err is a different error.
func elsewhereIn(err error) map[int]bool {
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
