package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/amend.lua
var amendSource string

var amendScript = wire.NewScript("amend", amendSource, false).Ends(layout.Outbox, 5).Names("8, #ARGV, 4", "elsewhere").Confirmed()

// Amendment is a change from outside a notice's delivery.
type Amendment string

// The amendments; what each does in which state stands in amend.lua.
const (
	Cancel     Amendment = "cancel"
	Reschedule Amendment = "reschedule"
	Fire       Amendment = "fire"
	Redrive    Amendment = "redrive"
	Purge      Amendment = "purge"   // a Cancel of dead letters alone
	reopen     Amendment = "reopen"  // see Store.Reopen
	replace    Amendment = "replace" // see scheduleAmid

	settleKnown Amendment = "settle" // see Store.SettleKnown
)

// When is the time that a Reschedule or Redrive gives: the instant Due if it is
// not zero, else Delay from now by Redis's clock.
type When struct {
	Due   time.Time
	Delay time.Duration
}

// Amend changes one notice; prefix is as for Find. Beside ErrUnconfirmed the Change
// says what was done.
func (s *Store) Amend(ctx context.Context, prefix, key string, op Amendment, when When) (Change, error) {
	a := []amended{{key: key, when: string(appendWhen(nil, when.Due, when.Delay))}}
	for range maxMoves {
		open, side := len(s.Formers()), s.Side()
		shard, err := s.Place(ctx, key)
		if err != nil {
			return Change{}, err
		}
		c, err := s.amendIn(ctx, shard, prefix, op, a)
		if !errors.Is(err, ErrNotFound) {
			return c, err
		}
		if s.IsFormer(shard) || s.Refilled(open) {
			continue
		}
		// Its mark may have been dropped with a change of side.
		if err = s.absent(ctx, shard, key); !errors.Is(err, ErrNotFound) || s.Side().Epoch == side.Epoch {
			return c, err
		}
	}
	return Change{}, fmt.Errorf("%s: %w", key, ErrNotFound)
}

// amendIn is Amend in one shard.
func (s *Store) amendIn(ctx context.Context, shard int, prefix string, op Amendment, a []amended) (Change, error) {
	key := a[0].key
	for range maxMoves {
		if prefix != "" {
			c, err := s.amend(ctx, keys.Partition{Prefix: prefix, Shard: shard}, op, a)
			if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
				return Change{}, err
			}
			if c[0].Before != "" {
				return c[0], err
			}
		}
		all, err := s.LookUnder(ctx, shard, prefix, key)
		if err != nil {
			return Change{}, err
		}
		if len(all) == 0 {
			break
		}
		at, err := s.Locate(ctx, shard, all, []string{key})
		if err != nil {
			return Change{}, err
		}
		if prefix = at[0]; prefix == "" {
			break
		}
	}
	return Change{}, fmt.Errorf("%s: %w", key, ErrNotFound)
}

// amendAtOnce is how many notices one script changes in AmendMany: a few ms.
const amendAtOnce = 200

// Amended names a notice to change, and when a Redrive makes it due.
type Amended struct {
	Prefix, Key string // Prefix is where it was found
	When
}

// AmendMany changes notices that were found, in bounded steps, and is how many of
// them it changed; that is known with an error too. What lies under its prefix no
// more is passed over, and in a cluster what lies at nodes that are missing; of that
// it is not known whether it was changed.
func (s *Store) AmendMany(ctx context.Context, op Amendment, list []Amended) (done int, missing []wire.Lost, err error) {
	r := s.w.NewRound()
	r.Allow(s.o.Confirm.Wait())
	for range maxMoves {
		open := len(s.Formers())
		ks := make([]string, len(list))
		for i := range list {
			ks[i] = list[i].Key
		}
		shards, err := s.Where(ctx, ks)
		if err != nil {
			return done, nil, err
		}
		by := map[keys.Partition][]Amended{}
		for i, a := range list {
			at := keys.Partition{Prefix: a.Prefix, Shard: shards[i]}
			by[at] = append(by[at], a)
		}
		list = list[:0:0]
		for at, all := range by {
			for step := range slices.Chunk(all, amendAtOnce) {
				if _, err := r.Do(ctx, at.Shard, func(ctx context.Context) error {
					n, moved, err := s.amendStep(ctx, at, op, step, open)
					done, list = done+n, append(list, moved...)
					return err
				}); err != nil {
					return done, nil, err
				}
			}
		}
		if len(list) == 0 {
			break
		}
	}
	missing, err = r.Missing(ctx)
	return done, missing, err
}

// amendStep changes notices of one partition, and says which are to be looked for again:
// they have been moved to another shard meanwhile, or open former shards were too few to
// look into.
func (s *Store) amendStep(ctx context.Context, at keys.Partition, op Amendment, step []Amended, open int) (done int, moved []Amended, err error) {
	list := make([]amended, len(step))
	for i, a := range step {
		list[i] = amended{key: a.Key, when: string(appendWhen(nil, a.Due, a.Delay))}
	}
	changes, err := s.amend(ctx, at, op, list)
	for i, c := range changes { // also of what is not confirmed
		switch {
		case c.Done:
			done++
		case c.Before == "" && (s.IsFormer(at.Shard) || s.Refilled(open)):
			moved = append(moved, step[i])
		}
	}
	return done, moved, err
}

// Reopen undoes a delivery: the notice that Find read as f, and that has been
// changed since to what t says, is scheduled again or, if t ends it, dead.
// Nothing is done if it is not what f found any more, or lies where f found it no
// more: read it again then.
func (s *Store) Reopen(ctx context.Context, f Found, t Settlement) (Change, error) {
	n := *t.Claim.Notice
	n.Endings++ // its delivery
	record := strconv.AppendInt([]byte(`{"due":`), n.Due.UnixMilli(), 10)
	record = n.AppendTail(strconv.AppendInt(append(record, `,"made":`...), int64(n.Made), 10))
	a := amended{key: n.Key, when: "dead", record: string(record), was: f.record}
	if t.Ending != EndDead {
		a.when = string(appendWhen(nil, time.Time{}, t.After))
	}
	c, err := s.amend(ctx, keys.Partition{Prefix: n.Route, Shard: f.Shard}, reopen, []amended{a})
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return Change{}, err
	}
	return c[0], err
}

// amended is one notice's part of an amendment.
type amended struct {
	key, when   string
	record, was string // of reopen and settle: as it shall be, and as it was read; of replace the new one's tail
}

func (s *Store) amend(ctx context.Context, p keys.Partition, op Amendment, list []amended) ([]Change, error) {
	args := []any{s.space.ClaimPrefix(p.Shard), s.space.Wake(), p.Wake(), s.timing(p.Prefix), s.keep, "", string(op)}
	for i := range list {
		args = append(args, list[i].key, list[i].when, list[i].record, list[i].was)
	}
	v, late := s.w.List(amendScript.Op, s.Knowing(ctx, s.space.Base(p.Shard), func(v *layout.View) *redis.Cmd {
		if v.Side.Closed() && op != reopen { // a report counts wherever its notice is
			return layout.Moved(ctx)
		}
		return s.Send(ctx, v, amendScript, s.space.States(p), args)
	}))
	if which := layout.ElsewhereIn(late); which != nil {
		return s.amendRest(ctx, p, op, list, which)
	}
	if late != nil && !errors.Is(late, wire.ErrUnconfirmed) {
		return nil, late
	}
	if len(v) != len(list)+1 {
		return nil, fmt.Errorf("amend: %d answers for %d keys", len(v)-1, len(list))
	}
	out := make([]Change, len(list))
	var timers []timer
	var err error
	held := 0
	for i := range list {
		k := list[i].key
		a, ok := v[i+1].([]any)
		if !ok || len(a) != 7 {
			return nil, fmt.Errorf("amend: unexpected answer %T", v[i+1])
		}
		before, _ := a[0].(string)
		c := Change{Before: notice.State(before), Done: a[1] == int64(1), InFlight: a[2] == int64(1)}
		if before != "" {
			claimed := int64(0)
			if !c.Done {
				claimed, _ = a[2].(int64)
			}
			if c.Found, err = found(k, p.Prefix, []any{a[3], a[4], claimed, a[5], a[6]}); err != nil {
				return nil, err
			}
			c.Found.Shard = p.Shard
			if c.Done && c.Found.State == "" { // kept no longer: retention is off
				c.Found.State, c.Found.SettledAt = notice.Cancelled, wire.Micros(v[0])
			}
			if s.o.Cluster && c.Done {
				over, own := overAll, true
				if s.adopts(p.Prefix) {
					over, own = overOwn, c.Before == notice.Scheduled || c.Before == notice.Claimed
					if !own {
						over = overNothing
					}
				}
				switch {
				case c.Found.State == notice.Scheduled && c.Due.After(wire.Micros(v[0])):
					timers = append(timers, timer{k, c.Due.UnixMilli(), c.NextAttempt(), over})
				case own:
					timers = append(timers, timer{key: k, over: remove})
				}
			}
		}
		out[i] = c
		if before != "" {
			held++
		}
	}
	s.arm(ctx, p.Prefix, timers, wire.Micros(v[0]))
	if late != nil {
		s.unconfirmed(amendScript.Op, held, late)
	}
	return out, late
}

// amendRest changes those that are not on the other side of a migration, as if the others
// were not there; one alone is ErrMoved.
func (s *Store) amendRest(ctx context.Context, p keys.Partition, op Amendment, list []amended, which map[int]bool) ([]Change, error) {
	some := layout.Without(list, which)
	if len(list) == 1 {
		return nil, fmt.Errorf("%s: %s: %w", op, list[0].key, wire.ErrMoved)
	}
	out := make([]Change, len(list))
	if len(some) == 0 {
		return out, nil
	}
	rest, err := s.amend(ctx, p, op, some)
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return nil, err
	}
	for i := range out {
		if !which[i] {
			out[i], rest = rest[0], rest[1:]
		}
	}
	return out, err
}

// Change answers a call that changes one notice.
type Change struct {
	// Found is the notice afterwards.
	Found
	// Done reports whether the call changed anything; if not, Before says why.
	Done bool
	// Before is the state the call met.
	Before notice.State
	// InFlight: an attempt was running when the call came; its end changes
	// nothing any more.
	InFlight bool
	// Repeated: nothing was changed because the same call had been made before.
	Repeated bool
}
