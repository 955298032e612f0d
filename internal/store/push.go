package store

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/push.lua
var pushSource string

// In a cluster, one script cannot write a notice and a list in another slot, so the push is a separate call.
var pushScript = wire.NewScript("push", WithParts(pushSource), true).Anywhere()

// Push appends the entry of a notice to a list or stream in Redis, from which consumers read. Only clusters need it:
// otherwise [Store.Settle] also pushes. A repeated call within keep, by any instance, adds no second entry.
// [notice.ErrUnanswered] means that Redis is unavailable and the entry may have been added. After any other error the
// entry was not added.
func Push(ctx context.Context, c wire.Commander, space keys.Space, p *notice.Push, keep time.Duration) error {
	ks := []string{p.Key, space.Pushed(p.Key, p.Mark)}
	for _, m := range p.InPlaceOf {
		ks = append(ks, space.Pushed(p.Key, m))
	}

	kind := "L"
	if p.Stream {
		kind = "S" + strconv.FormatInt(p.MaxLen, 10)
	}

	args := []any{keep.Milliseconds(), kind}
	for i := range p.Entry {
		args = append(args, p.Entry[i])
	}

	err := wire.SendTo(ctx, c, pushScript, ks, args).Err()
	if err != nil && !refusesEntry(err) {
		return wire.Wrap("push", errors.Join(notice.ErrUnanswered, err))
	}

	return wire.Wrap("push", err)
}

// refusesEntry reports whether err is Redis's refusal of an entry: a key of another type, a missing
// permission, no memory. All other errors mean that Redis is unavailable.
func refusesEntry(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false
	}

	met := wire.Cause(answer)
	return !wire.NotNow(met) && !redis.IsAuthError(met)
}
