package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/settle.lua
var settleSource string

var settleScript = wire.NewScript("settle", settleSource, false).Ends(layout.Outbox, 5).ConfirmedSettle()

// Ending says how a claim ends.
type Ending string

// The endings; the values are settle.lua's.
const (
	EndDelivered Ending = "d"
	EndDead      Ending = "x"
	EndRetry     Ending = "r" // After the ladder's step
	EndDeferred  Ending = "f" // After a while, no attempt used, with a new due time
	EndPostponed Ending = "p" // After a while, no attempt used; the due time stays
	EndHanded    Ending = "w" // pushed; a consumer reports within After
)

// Settlement ends one claim. Its notice already holds what is to be written.
type Settlement struct {
	Claim  Claim
	Ending Ending
	After  time.Duration
	Push   *notice.Push
	// Held is what the notice waits for (of EndPostponed).
	Held notice.Held
	// KeepRecord: the record stays as it is (of EndPostponed).
	KeepRecord bool
}

// Settled answers one Settlement.
type Settled struct {
	// Stale: the claim was no longer ours and nothing was written.
	Stale bool
	// Refused is why the list or stream did not take the entry: nothing was
	// written, and the claim waits for another ending.
	Refused string
	// Score is that of a postponed notice, for ClaimPostponed.
	Score string
	// Unavailable: it was refused because Redis takes no writes at the moment, which
	// says nothing about the list or stream.
	Unavailable bool
	// Due is when it needs attention again; zero if it is settled or handed.
	Due time.Time
}

// Settle ends claims of one partition in one call. After an error it is
// unknown which were written; calling again is safe: what was written the first
// time, pushes included, is stale the second time. Beside ErrUnconfirmed the
// answers say what was done; calling again confirms it, or does it where a failover
// has undone it.
func (s *Store) Settle(ctx context.Context, p keys.Partition, list []Settlement) ([]Settled, error) {
	ks := s.space.States(p)
	a := wire.NewArgs(s.space.ClaimPrefix(p.Shard), s.space.Wake(), p.Wake(), s.timing(p.Prefix), s.keep, "")
	defer a.Free()
	a.Number(int64(len(list)))
	for i := range list {
		a.Text(list[i].Claim.Key)
	}
	for i := range list {
		ks = list[i].append(a, ks)
	}
	v, late := s.w.Run(ctx, settleScript, ks, a.List())
	if late != nil && !errors.Is(late, wire.ErrUnconfirmed) {
		return nil, late
	}
	if len(v) != len(list)+1 {
		return nil, fmt.Errorf("settle: %d answers to %d settlements", len(v)-1, len(list))
	}
	now := wire.Micros(v[0])
	out := make([]Settled, len(list))
	var timers []timer
	over := overAll
	if s.adopts(p.Prefix) {
		over = overNothing
	}
	for i := range list {
		switch ms, counted := v[i+1].(int64); {
		case !counted:
			out[i].Refused = fmt.Sprint(v[i+1])
			out[i].Unavailable = !refusesEntry(wire.Refusal(out[i].Refused))
		case ms < 0:
			out[i].Stale = true
		case ms > 0:
			out[i].Due = time.UnixMilli(ms).UTC()
			if list[i].Ending == EndPostponed {
				out[i].Score = heldScore(ms, list[i].Held)
			}
			if s.o.Cluster {
				timers = append(timers, timer{list[i].Claim.Key, ms, list[i].Claim.NextAttempt(), over})
			}
		}
	}
	s.arm(ctx, p.Prefix, timers, now)
	s.handedOver(p.Shard, list)
	if late != nil {
		s.unconfirmed(settleScript.Op, len(list), late)
	}
	return out, late
}

// append appends the arguments of one settlement, and to ks where it pushes.
func (t *Settlement) append(a *wire.Args, ks []string) []string {
	n := t.Claim.Notice
	a.Text(t.Claim.token)
	a.Buf = append(a.Buf, t.Ending...)
	if pushes(t.Push) {
		var at int
		ks, at = addKey(ks, t.Push.Key)
		a.Buf = strconv.AppendInt(a.Buf, int64(at-4), 10)
		if t.Push.Stream {
			a.Buf = strconv.AppendInt(append(a.Buf, " S "...), t.Push.MaxLen, 10)
		} else {
			a.Buf = append(a.Buf, " L"...)
		}
	}
	a.End()
	coming := n.NextAttempt()
	if t.Ending == EndHanded {
		coming = n.AttemptsMade // the report is on the attempt just counted
	}
	a.Buf = append(append(append(append(a.Buf, t.Claim.score...), ' '), t.Claim.before...), ' ')
	a.Buf = append(strconv.AppendInt(a.Buf, int64(n.Made), 10), ' ')
	a.Buf = append(strconv.AppendInt(a.Buf, (t.After.Nanoseconds()+999_999)/1_000_000, 10), ' ')
	a.Buf = append(strconv.AppendInt(a.Buf, int64(coming), 10), ' ')
	held := 0
	if t.Ending == EndPostponed { // no other score may allow an early claim
		held = t.Held.Index()
	}
	a.Number(int64(held))
	switch {
	case t.KeepRecord:
		a.Buf = append(a.Buf, '-')
	default:
		if t.Ending != EndRetry && t.Ending != EndDeferred {
			a.Buf = strconv.AppendInt(append(a.Buf, `{"due":`...), n.Due.UnixMilli(), 10)
		}
		a.Buf = strconv.AppendInt(append(a.Buf, `,"made":`...), int64(n.Made), 10)
		a.Buf = n.AppendTail(a.Buf)
	}
	a.End()
	if pushes(t.Push) {
		a.Number(int64(len(t.Push.Entry)))
		for _, e := range t.Push.Entry {
			a.Text(e)
		}
	}
	return ks
}

// pushes reports whether the settle has something to push: one without an entry
// was pushed before.
func pushes(p *notice.Push) bool { return p != nil && len(p.Entry) > 0 }

// addKey appends k to ks unless it is there, and says where it is, from 1.
func addKey(ks []string, k string) ([]string, int) {
	for i := 4; i < len(ks); i++ {
		if ks[i] == k {
			return ks, i + 1
		}
	}
	return append(ks, k), len(ks) + 1
}
