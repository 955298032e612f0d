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

//go:embed lua/settle.lua
var settleSource string

var settleScript = wire.NewScript("settle", WithParts(settleSource), false).Ends(5).ConfirmedSettle()

// Ending is the outcome of a claim.
type Ending string

// The outcomes; the values are those of settle.lua.
const (
	EndDelivered Ending = "d"
	EndDead      Ending = "x"
	EndRetry     Ending = "r" // scheduled again, After the ladder's step
	EndDeferred  Ending = "f" // scheduled again with a new due time, no attempt used
	EndPostponed Ending = "p" // scheduled again with the same due time, no attempt used
	EndHanded    Ending = "w" // pushed; a consumer must report within After
)

// Settlement settles one claim. The notice of the claim already has its new content.
type Settlement struct {
	Claim  Claim
	Ending Ending
	After  time.Duration
	Push   *notice.Push
	// Held is the cause of a postponement.
	Held notice.Held
	// Death is the entry for the hook of the notice's route; only for EndDead. Nil = the route has no hook.
	Death *Death
	// KeepRecord leaves the record unchanged; only for EndPostponed.
	KeepRecord bool
	// Pause lists the notice as held by that pause of its receiver; only for EndPostponed. See package receivers.
	Pause string
}

// Settled is the result of one Settlement.
type Settled struct {
	// Stale reports whether the claim was no longer valid. Then nothing was written.
	Stale bool
	// Refused is the error of the push to the list or stream. Then nothing was written, and the
	// claim can be settled with another outcome.
	Refused string
	// Score is the score of a postponed notice, for ClaimPostponed.
	Score string
	// Unavailable reports whether the push was refused because Redis takes no writes at present.
	// Such an error does not concern the list or stream.
	Unavailable bool
	// Woke reports whether the call has made a notice due that waited for one of its notices. All results
	// of the call have the same value.
	Woke bool
	// Due is when the notice needs attention again; zero if it is finalized or awaits a report.
	Due time.Time
}

// Settle writes the results of attempts to Redis and ends their claims. All claims must be of partition p; the results
// have the order of list. The error [wire.ErrUnconfirmed] means that the results are valid, but replicas or disk have
// not confirmed the writes. After any other error there are results for the first settlements only, and the outcome of the
// others is unknown. The caller may repeat these; settlements that were already written are then reported as stale
// ([Settled.Stale]).
func (s *Store) Settle(ctx context.Context, p keys.Partition, list []Settlement) ([]Settled, error) {
	size := s.w.Requests(p.Shard)
	var out []Settled
	var short error
	for len(list) > 0 {
		bytes := size.Size(wire.MaxBatchBytes)
		n, got := 0, 0
		for n == 0 || n < len(list) && got < bytes {
			got += list[n].bytes()
			n++
		}

		sent := time.Now()
		done, err := s.settle(ctx, p, list[:n])
		late := errors.Is(err, wire.ErrUnconfirmed)
		if late {
			short, err = err, nil
		}

		if size.Done(bytes, got, time.Since(sent), err); err != nil {
			return out, err
		}

		list = list[n:]
		if out == nil { // normally all of them
			out = done
		} else {
			out = append(out, done...)
		}
	}

	return out, short
}

// bytes returns about the size of a settlement in a request.
func (t *Settlement) bytes() int {
	n := settleBytes
	if !t.KeepRecord {
		n += len(t.Claim.Body) + len(t.Claim.Sealed)
	}

	if t.Push != nil {
		for _, e := range t.Push.Entry {
			n += len(e)
		}
	}

	return n
}

// settleBytes is about the size of a settlement without its body.
const settleBytes = 500

// settle is one call of Settle.
func (s *Store) settle(ctx context.Context, p keys.Partition, list []Settlement) ([]Settled, error) {
	ks := s.space.States(p)
	keep := s.Retains()
	if slices.ContainsFunc(list, func(t Settlement) bool { return !t.Claim.Expires.IsZero() }) {
		keep += "e"
	}

	a := wire.NewArgs(s.space.ClaimPrefix(p.Shard), s.space.Wake(), p.Wake(), s.Timers.Mode(p.Prefix), keep, "")
	defer a.Free()
	a.Number(int64(len(list)))
	for i := range list {
		a.Text(list[i].Claim.Key)
	}

	for i := range list {
		ks = list[i].append(a, ks)
	}

	v, late := s.Layout.Parts(ctx, settleScript, 0, ks, a.List())
	if late != nil && !errors.Is(late, wire.ErrUnconfirmed) {
		return nil, late
	}

	v = s.Foreign(p.Prefix, v)
	woke := len(v) == len(list)+2
	if len(v) != len(list)+1 && !woke {
		return nil, wire.BadReply("settle", "%d answers to %d settlements", len(v)-1, len(list))
	}

	out := make([]Settled, len(list))
	var timers []timer
	for i := range list {
		out[i].Woke = woke
		ms := out[i].read(&list[i], v[i+1])
		if s.o.Cluster && ms > 0 && list[i].Pause == "" {
			timers = append(timers, timer{key: list[i].Claim.Key, due: ms, attempt: list[i].Claim.NextAttempt(), was: list[i].Claim.before})
		}
	}

	s.Timers.arm(ctx, p.Prefix, timers, wire.Micros(v[0]))
	s.handedOver(p.Shard, list)
	if late != nil {
		s.Unconfirmed(settleScript.Op, len(list), late)
	}

	return out, late
}

// read reads the reply of settle.lua for a settlement, and returns when the notice is due again, in
// Unix ms; 0 or less if it is not.
func (s *Settled) read(t *Settlement, v any) (ms int64) {
	ms, counted := v.(int64)
	switch {
	case !counted:
		s.Refused = fmt.Sprint(v)
		s.Unavailable = !refusesEntry(wire.Refusal(s.Refused))
	case ms < 0:
		s.Stale = true
	case ms > 0:
		s.Due = time.UnixMilli(ms).UTC()
		if t.Ending == EndPostponed && t.Pause == "" {
			s.Score = heldScore(ms, causeOf(t.Held, t.Claim.Class()))
		}
	}

	return ms
}

// append appends the arguments of one settlement to a, and the key that it pushes to, if any, to
// ks.
func (t *Settlement) append(a *wire.Args, ks []string) []string {
	n := t.Claim.Notice
	a.Text(t.Claim.token)
	death := t.Ending == EndDead && t.Death != nil
	pause := t.Ending == EndPostponed && t.Pause != ""
	switch {
	case death:
		a.Buf = append(a.Buf, 'h')
	case pause:
		a.Buf = append(a.Buf, 'k')
	default:
		a.Buf = append(a.Buf, t.Ending...)
	}

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
	t.appendFacts(a)
	switch {
	case t.KeepRecord:
		a.Buf = append(a.Buf, '-')
	default:
		if t.Ending == EndRetry || t.Ending == EndDeferred {
			n.FirstDue = n.DueAtCreation() // Redis computes the new due time
		} else {
			a.Buf = strconv.AppendInt(append(a.Buf, `{"due":`...), n.Due.UnixMilli(), 10)
		}

		a.Buf = strconv.AppendInt(append(a.Buf, `,"made":`...), int64(n.Made), 10)
		a.Buf = n.AppendTail(a.Buf)
	}

	a.End()
	if death {
		a.Text(t.Death.text(n))
	}

	if pause {
		a.Text(t.Pause)
	}

	if pushes(t.Push) {
		a.Number(int64(len(t.Push.Entry)))
		for _, e := range t.Push.Entry {
			a.Text(e)
		}
	}

	return ks
}

// appendFacts appends the facts of settle.lua.
func (t *Settlement) appendFacts(a *wire.Args) {
	n := t.Claim.Notice
	coming := n.NextAttempt()
	if t.Ending == EndHanded {
		coming = n.AttemptsMade // the report is on the attempt just counted
	}

	a.Buf = append(append(append(append(a.Buf, t.Claim.score...), ' '), t.Claim.before...), ' ')
	a.Buf = append(strconv.AppendInt(a.Buf, int64(n.Made), 10), ' ')
	a.Buf = append(strconv.AppendInt(a.Buf, (t.After.Nanoseconds()+999_999)/1_000_000, 10), ' ')
	a.Buf = append(strconv.AppendInt(a.Buf, int64(coming), 10), ' ')
	cause := 0.0
	switch {
	case t.Pause != "": // the score of a held notice
		cause = float64(notice.HeldPaused.Index())
	case t.Ending == EndPostponed: // no other score may allow an early claim
		cause = causeOf(t.Held, n.Class())
	case t.Ending == EndRetry || t.Ending == EndDeferred:
		cause = causeOf(notice.HeldNone, n.Class())
	case t.Ending == EndDead:
		cause = float64(n.Cause().Code())
	}

	a.Buf = strconv.AppendFloat(a.Buf, cause, 'g', -1, 64)
	if !n.Expires.IsZero() && t.Ending != EndDelivered && t.Ending != EndDead {
		a.Buf = strconv.AppendInt(append(a.Buf, ' '), n.Expires.UnixMilli(), 10)
	}

	a.End()
}

// pushes reports whether a settle pushes an entry. A push without an entry was made before the
// settle.
func pushes(p *notice.Push) bool { return p != nil && len(p.Entry) > 0 }

// addKey appends k to ks unless ks contains k. It returns the index of k, from 1.
func addKey(ks []string, k string) ([]string, int) {
	for i := 4; i < len(ks); i++ {
		if ks[i] == k {
			return ks, i + 1
		}
	}
	return append(ks, k), len(ks) + 1
}

// handedOver reports to the observer how many entries a settle has added to an outbox.
func (s *Store) handedOver(shard int, list []Settlement) {
	if s.o.Observer == nil || !s.Layout.HandsOver() {
		return
	}

	n := 0
	for i := range list {
		if list[i].Ending == EndDelivered || list[i].Ending == EndDead {
			n++
		}
	}

	if n > 0 {
		s.o.Observer.Finalized(shard, n)
	}
}
