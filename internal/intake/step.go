package intake

import (
	"cmp"
	"context"
	"crypto/sha1" // distinguishes values, not for security
	_ "embed"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

//go:embed lua/adopt.lua
var adoptSource string

// A timer that a producer has set since its notice left is a new notice. So only notices in an
// unfinished batch are refused.
var adoptScript = wire.NewScript("adopt", store.WithParts(adoptSource), true).
	Ends(5).Names("7, #ARGV, 7", "moving")

// Operation is the action of Adopt on a key.
type Operation string

// The operations; the values are adopt.lua's.
const (
	OpAdopt  Operation = "a" // a new notice replaces the existing state
	OpMove   Operation = "m" // the pending notice is rescheduled to the timer's expiry
	OpCancel Operation = "c" // the pending notice is cancelled
)

// Adoption is one operation on a key in the state in which it was seen.
type Adoption struct {
	Seen
	Op      Operation
	Content notice.Content // of OpAdopt
}

// Adopt applies operations of one partition in one call. False means that timer or notice have
// changed since they were seen, and nothing was written.
func (s Redis) Adopt(ctx context.Context, p keys.Partition, list []Adoption) ([]bool, error) {
	done := make([]bool, 0, len(list))
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].under == list[0].under {
			n++
		}

		some, err := s.adopt(ctx, p.Under(cmp.Or(list[0].under, p.Prefix)), list[:n])
		if err != nil {
			return nil, err
		}

		done, list = append(done, some...), list[n:]
	}

	return done, nil
}

// adopt applies the operations on notices under one prefix.
func (s Redis) adopt(ctx context.Context, p keys.Partition, list []Adoption) ([]bool, error) {
	args := []any{s.Space().ClaimPrefix(p.Shard), s.Space().Wake(), p.Wake(), s.Store.Timers.Mode(p.Prefix), s.Retains(), ""}
	for i := range list {
		args = append(args, list[i].args()...)
	}

	creates := slices.ContainsFunc(list, func(a Adoption) bool { return a.Op == OpAdopt && a.Notice == nil })
	v, err := s.Change(ctx, adoptScript, store.Call{Shard: p.Shard, Creates: creates, Since: s.Sight(),
		Prepare: func(at *store.LayoutView) ([]string, []any) {
			ks := s.Space().States(p)
			for _, other := range at.Others(p.Prefix, nil) {
				ks = append(ks, s.Space().Records(p.Under(other)))
			}

			return ks, args
		}}).Slice()
	if done, refused, err := store.Rest(list, err, false, func(some []Adoption) ([]bool, error) {
		return s.adopt(ctx, p, some)
	}); refused {
		return done, err
	}

	if err != nil {
		return nil, s.Wire().Fail(adoptScript.Op, err)
	}
	if len(v) != len(list)+1 {
		return nil, wire.BadReply("adopt", "%d answers to %d steps", len(v)-1, len(list))
	}

	done := make([]bool, len(list))
	for i := range list {
		done[i] = v[i+1] == int64(1)
	}

	return done, nil
}

// args returns the arguments of adopt.lua for a step.
func (a *Adoption) args() []any {
	digest, made := "", notice.Made(0)
	switch {
	case a.Length == NoString:
		digest = "T"
	case a.Length >= 0 && a.Value == nil:
		digest = "L" + strconv.FormatInt(a.Length, 10)
	case a.Length >= 0:
		sum := sha1.Sum(a.Value) // no security depends on it
		digest = hex.EncodeToString(sum[:])
	}

	if a.Notice != nil {
		made = a.Made
	}

	var tail []byte
	switch due := time.UnixMilli(a.Expire + 1).UTC(); {
	case a.Op == OpAdopt:
		n := notice.Notice{Content: a.Content}
		if n.ExpiresAfter > 0 {
			n.Expires = due.Add(n.ExpiresAfter)
		}

		tail = n.AppendTail(nil)
	case a.Op == OpMove && a.Notice.Adopted && a.Notice.ExpiresAfter > 0:
		tail = strconv.AppendInt(nil, due.Add(a.Notice.ExpiresAfter).UnixMilli(), 10)
	}

	return []any{a.Key, string(a.Op), digest, a.Expire, a.score, int64(made), tail}
}
