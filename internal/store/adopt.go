package store

import (
	"cmp"
	"context"
	"crypto/sha1" // tells values apart, and protects nothing
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/adopt.lua
var adoptSource string

// What a producer has set since a notice left is a new one, so only notices that are on their way are refused.
var adoptScript = wire.NewScript("adopt", adoptSource, true).Ends(layout.Outbox, 5).Names("7, #ARGV, 7", "moving")

// Operation is what Adopt does with a key.
type Operation string

// The operations; the values are adopt.lua's.
const (
	OpAdopt  Operation = "a" // a new notice takes the place of whatever is there
	OpMove   Operation = "m" // the pending notice moves to the timer's expiry
	OpCancel Operation = "c" // the pending notice is cancelled
)

// Adoption is one step to take with a key as it was seen.
type Adoption struct {
	Seen
	Op      Operation
	Content notice.Content // of OpAdopt
}

// Adopt takes steps of one partition in one call. False means that timer
// or notice have changed since they were seen, and nothing was written.
func (s *Store) Adopt(ctx context.Context, p keys.Partition, list []Adoption) ([]bool, error) {
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

// adopt takes the steps of notices that lie, or will, under one prefix.
func (s *Store) adopt(ctx context.Context, p keys.Partition, list []Adoption) ([]bool, error) {
	args := []any{s.space.ClaimPrefix(p.Shard), s.space.Wake(), p.Wake(), s.timing(p.Prefix), s.keep, ""}
	for i := range list {
		a := &list[i]
		digest, made := "", notice.Made(0)
		switch {
		case a.Length == NoString:
			digest = "T"
		case a.Length >= 0 && a.Value == nil:
			digest = "L" + strconv.FormatInt(a.Length, 10)
		case a.Length >= 0:
			sum := sha1.Sum(a.Value) // as above
			digest = hex.EncodeToString(sum[:])
		}
		if a.Notice != nil {
			made = a.Made
		}
		var tail []byte
		if a.Op == OpAdopt {
			n := notice.Notice{Content: a.Content}
			tail = n.AppendTail(nil)
		}
		args = append(args, a.Key, string(a.Op), digest, a.Expire, a.score, int64(made), tail)
	}
	v, err := s.Knowing(ctx, s.space.Base(p.Shard), func(at *layout.View) *redis.Cmd {
		if p.Shard < at.First && slices.ContainsFunc(list, func(a Adoption) bool { return a.Op == OpAdopt && a.Notice == nil }) {
			return layout.Replaced(ctx)
		}
		ks := s.space.States(p)
		for _, other := range at.Others(p.Prefix, nil) {
			ks = append(ks, s.space.Records(p.Under(other)))
		}
		return s.Send(ctx, at, adoptScript, ks, args)
	}).Slice()
	if which := layout.ElsewhereIn(err); which != nil {
		return s.adoptRest(ctx, p, list, which)
	}
	if err != nil {
		return nil, s.w.Fail(adoptScript.Op, err)
	}
	if len(v) != len(list)+1 {
		return nil, fmt.Errorf("adopt: %d answers to %d steps", len(v)-1, len(list))
	}
	done := make([]bool, len(list))
	for i := range list {
		done[i] = v[i+1] == int64(1)
	}
	return done, nil
}

// adoptRest takes the steps of those that are not on their way to another Redis now.
func (s *Store) adoptRest(ctx context.Context, p keys.Partition, list []Adoption, which map[int]bool) ([]bool, error) {
	done := make([]bool, len(list))
	some := layout.Without(list, which)
	if len(some) == 0 {
		return done, nil
	}
	rest, err := s.adopt(ctx, p, some)
	if err != nil {
		return nil, err
	}
	for i := range done {
		if !which[i] {
			done[i], rest = rest[0], rest[1:]
		}
	}
	return done, nil
}
