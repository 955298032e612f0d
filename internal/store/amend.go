package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/amend.lua
var amendSource string

var amendScript = wire.NewScript("amend", WithParts(amendSource), false).
	Ends(5).Names("8, #ARGV, 4", "elsewhere").Confirmed()

// Amendment is a change of a notice on request, outside an attempt.
type Amendment string

// The amendments; amend.lua describes the effect of each in each state.
const (
	Cancel     Amendment = "cancel"
	Reschedule Amendment = "reschedule"
	Fire       Amendment = "fire"
	Redrive    Amendment = "redrive"
	Purge      Amendment = "purge"     // cancels dead letters only
	retire     Amendment = "retire"    // see Retirement
	reopen     Amendment = "reopen"    // see Store.Reopen
	resend     Amendment = "resend"    // see Store.Resend
	readdress  Amendment = "readdress" // see Store.Readdress
	replace    Amendment = "replace"   // see scheduleOver

	settleKnown Amendment = "settle" // see Store.SettleKnown
)

// When is the new due time of a Reschedule or Redrive. It is Due, or Delay from now by Redis's
// clock if Due is zero. A Redrive may also change when the notice expires.
type When struct {
	Due     time.Time
	Delay   time.Duration
	Expires notice.Expiry
}

// append appends the time for amend.lua.
func (w When) append(b []byte) []byte {
	return appendExpiry(appendWhen(b, w.Due, w.Delay), w.Expires)
}

// Check returns an error that wraps notice.ErrInvalid if the due time is before 1970 or more than notice.MaxHorizon after
// now. field is the field with the mistake: due or delay.
func (w When) Check(now time.Time) (field string, err error) {
	most := notice.Short(notice.MaxHorizon)
	switch {
	case w.Delay < 0 || w.Delay > notice.MaxHorizon:
		return "delay", fmt.Errorf("%w: %s is not from 0 to %s", notice.ErrInvalid, w.Delay, most)
	case w.Due.IsZero():
		return "", nil
	case w.Due.Before(time.Unix(0, 0)):
		return "due", fmt.Errorf("%w: is before 1970", notice.ErrInvalid)
	case w.Due.After(now.Add(notice.MaxHorizon)):
		return "due", fmt.Errorf("%w: is more than %s ahead", notice.ErrInvalid, most)
	}

	return "", nil
}

// Amend changes one notice; prefix is the one of its route, as for Find. With ErrUnconfirmed the
// Change is returned too.
func (s *Store) Amend(ctx context.Context, prefix, key string, op Amendment, when When) (Change, error) {
	a := amended{key: key, when: string(when.append(nil))}
	var c Change
	err := s.follow(ctx, key, func(shard int) (err error) {
		c, err = s.amendIn(ctx, shard, prefix, op, a)
		return err
	})
	return c, err
}

// amendIn is Amend in one shard.
func (s *Store) amendIn(ctx context.Context, shard int, prefix string, op Amendment, a amended) (Change, error) {
	for range maxMoves {
		if prefix != "" {
			c, err := s.amendOne(ctx, keys.Partition{Prefix: prefix, Shard: shard}, op, a)
			if err != nil || c.Before != "" {
				return c, err
			}
		}

		all, err := s.Layout.lookUnder(ctx, shard, prefix, a.key)
		if err != nil {
			return Change{}, err
		}
		if len(all) == 0 {
			break
		}

		at, err := s.Layout.Locate(ctx, shard, all, []string{a.key})
		if err != nil {
			return Change{}, err
		}
		if prefix = at[0]; prefix == "" {
			break
		}
	}

	return Change{}, fmt.Errorf("%s: %w", a.key, ErrNotFound)
}

// amendAtOnce is the maximum number of notices that one script call changes, in a few ms.
const amendAtOnce = 200

// Amended names a notice to change, and the due time of a Redrive.
type Amended struct {
	Prefix, Key string // Prefix is the one under which the notice was found
	When
}

// AmendMany applies one operation, such as [Redrive], to many notices. done is the number of changed notices, also if
// err is not nil. A notice stays unchanged, for example, if its state does not allow the operation, or if it is no
// longer stored under its Prefix in list. missing lists the nodes of a cluster that did not answer: their notices may
// or may not have been changed.
func (s *Store) AmendMany(ctx context.Context, op Amendment, list []Amended) (done int, missing []wire.Lost, err error) {
	return s.amendMany(ctx, op, list, nil)
}

// amendMany is AmendMany as a part of a job, unless j is nil.
func (s *Store) amendMany(ctx context.Context, op Amendment, list []Amended, j *job) (done int, missing []wire.Lost, err error) {
	r := s.w.NewRound()
	r.Allow(s.o.Confirm.Wait())
	for range maxMoves {
		since := s.Sight()
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
					n, moved, err := s.amendStep(ctx, at, op, amendments{j, step, since})
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

// amendments are notices to change. since is the Sight with which they were found.
type amendments struct {
	job   *job // nil = of none
	list  []Amended
	since Sight
}

// amendStep changes notices of one partition. moved contains those to look up again, because they
// have been moved to another shard.
func (s *Store) amendStep(ctx context.Context, at keys.Partition, op Amendment, step amendments) (done int, moved []Amended, err error) {
	list := make([]amended, len(step.list))
	for i, a := range step.list {
		list[i] = amended{key: a.Key, when: string(a.append(nil))}
		if step.job != nil {
			list[i].record, list[i].was = step.job.ID, strconv.FormatInt(step.job.last(at.Shard), 10)
		}
	}

	changes, err := s.amend(ctx, at, op, list)
	for i, c := range changes { // also with ErrUnconfirmed
		switch {
		case c.Done:
			done++
		case c.Before == "" && s.Layout.mayMove(step.since, at.Shard):
			moved = append(moved, step.list[i])
		}
	}

	return done, moved, err
}

// Reopen undoes the delivery of a notice whose consumer, a program that reads a list or stream, has reported a failure
// or a deferral. f is the stored notice as the caller has read it, and t contains the new outcome and content. If the
// stored notice has changed since then, Reopen writes nothing and Change.Done is false.
func (s *Store) Reopen(ctx context.Context, f Found, t Settlement) (Change, error) {
	n := *t.Claim.Notice
	n.Endings++ // its delivery
	a := amended{key: n.Key, when: "dead " + strconv.Itoa(n.Cause().Code()), record: string(AppendRecord(nil, &n)), was: f.record}
	switch {
	case t.Ending == EndDead && t.Death != nil:
		a.when += " " + t.Death.text(&n)
	case t.Ending != EndDead:
		a.when = string(appendWhen(nil, time.Time{}, t.After))
	}

	return s.amendOne(ctx, keys.Partition{Prefix: n.Route, Shard: f.Shard}, reopen, a)
}

// amended is the arguments of one notice in an amendment.
type amended struct {
	key, when string
	// record and was are the new and old record of reopen, resend, readdress and settle; of replace record is the new
	// record's tail; of a retirement, redrive or purge of many they are the job's id and the ms of the last death that it takes; of
	// a cancel by a job its id and the record that was read.
	record, was string
	// dataKey is the id of the data key of a newly sealed record of readdress.
	dataKey string
}

// amendOne changes one notice. The error is wire.ErrMoved if a migration has moved it.
func (s *Store) amendOne(ctx context.Context, p keys.Partition, op Amendment, a amended) (Change, error) {
	c, err := s.amend(ctx, p, op, []amended{a})
	switch {
	case err != nil && !errors.Is(err, wire.ErrUnconfirmed):
		return Change{}, err
	case c[0].Expires:
		return c[0], ErrExpires
	case c[0].moved:
		return Change{}, fmt.Errorf("%s: %s: %w", op, a.key, wire.ErrMoved)
	}

	return c[0], err
}

// amend changes notices of one partition in one call. With ErrUnconfirmed the changes are returned
// too.
func (s *Store) amend(ctx context.Context, p keys.Partition, op Amendment, list []amended) ([]Change, error) {
	v, late := s.sendAmend(ctx, p, op, list)
	if out, refused, err := Rest(list, late, Change{moved: true}, func(some []amended) ([]Change, error) {
		return s.amend(ctx, p, op, some)
	}); refused {
		return out, err
	}

	if late != nil && !errors.Is(late, wire.ErrUnconfirmed) {
		return nil, late
	}
	if v = s.Foreign(p.Prefix, v); len(v) != len(list)+1 {
		return nil, wire.BadReply("amend", "%d answers for %d keys", len(v)-1, len(list))
	}

	now, out := wire.Micros(v[0]), make([]Change, len(list))
	var timers []timer
	found := 0
	for i := range list {
		c, err := readChange(list[i].key, p, v[i+1], now)
		if err != nil {
			return nil, err
		}
		if out[i] = c; c.Before == "" {
			continue
		}

		found++
		if s.o.Cluster && c.Done {
			timers = append(timers, changedTimer(list[i].key, op, &c))
		}
	}

	s.Timers.arm(ctx, p.Prefix, timers, now)
	if late != nil {
		s.Unconfirmed(amendScript.Op, found, late)
	}

	return out, late
}

func (s *Store) sendAmend(ctx context.Context, p keys.Partition, op Amendment, list []amended) ([]any, error) {
	args := []any{s.space.ClaimPrefix(p.Shard), s.space.Wake(), p.Wake(), s.Timers.Mode(p.Prefix), s.Retains(), "", ""}
	operation := string(op)
	for i := range list {
		if id := list[i].dataKey; id != "" {
			operation += " " + id
		}

		args = append(args, list[i].key, list[i].when, list[i].record, list[i].was)
	}

	args[6] = operation
	e := passage{shard: p.Shard, access: accessOpen}
	if op == reopen { // a report is accepted on both sides
		e.access = accessAny
	}

	cmd := s.Layout.Call(ctx, amendScript, s.space.Base(p.Shard), func(v *LayoutView) ([]string, []any, error) {
		return s.space.States(p), args, s.Layout.refusal(v, e)
	})
	if lacksDataKey(cmd.Err()) {
		return nil, ErrNoDataKey
	}

	return s.w.List(amendScript.Op, cmd)
}

// readChange reads the reply of amend.lua for a key.
func readChange(key string, p keys.Partition, v any, now time.Time) (Change, error) {
	a, ok := v.([]any)
	if !ok || len(a) != 8 {
		return Change{}, wire.BadReply("amend", "unexpected answer %T", v)
	}

	before, _ := a[0].(string)
	c := Change{Before: notice.State(before), Done: a[1] == int64(1), Expires: a[1] == int64(-1), InFlight: a[2] == int64(1)}
	if before == "" {
		return c, nil
	}

	claimed := int64(0)
	if !c.Done {
		claimed, _ = a[2].(int64)
	}

	f, err := ReadFound(key, p.Prefix, []any{a[3], a[4], claimed, a[5], a[6]})
	if err != nil {
		return Change{}, err
	}

	c.Found, c.Found.Shard = f, p.Shard
	c.was, _ = a[7].(string)
	if c.Done && c.Found.State == "" { // not stored any more: there is no retention
		c.Found.State, c.Found.SettledAt = notice.Cancelled, now
	}

	return c, nil
}

// changedTimer returns, in a cluster, the operation on the timer of a changed notice. The score decides, because the due time
// of a postponed notice is in the past.
func changedTimer(key string, op Amendment, c *Change) timer {
	t := timer{key: key, was: c.was, anew: op == replace}
	if c.Found.State == notice.Scheduled && timedScore(c.score) {
		t.due, t.attempt = c.next.UnixMilli(), c.NextAttempt()
	}

	return t
}

// Change is the result of a change of one notice.
type Change struct {
	// Found is the notice after the change.
	Found
	// Done reports whether the call changed the notice; otherwise Before is the reason.
	Done bool
	// Before is the state before the change.
	Before notice.State
	// Expires reports that nothing was changed because the notice would have expired when it is due.
	Expires bool
	// InFlight reports whether an attempt was running. Its outcome is then ignored.
	InFlight bool
	// Repeated reports that nothing was changed because the same call was made before.
	Repeated bool

	moved bool   // by a migration to another Redis
	was   string // the score before the change; empty = the notice was not pending
}
