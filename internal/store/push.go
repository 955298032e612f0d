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

var pushScript = wire.NewScript("push", pushSource, true).Anywhere()

// Push appends an entry to a list or stream by itself, where the settle cannot
// do it: in a cluster, when the target lies in another slot. It leaves a marker there
// for as long as keep: the same push made again, here or by another instance, does
// nothing and is a success. ErrUnanswered: Redis is unavailable, and the entry may be
// there or not. Any other error is a refusal, and the entry is not there.
func Push(ctx context.Context, c redis.UniversalClient, space keys.Space, p *notice.Push, keep time.Duration) error {
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

// refusesEntry reports whether err is Redis's answer that it does not take an entry:
// another type at the key, no right to it, no memory. Anything else, a call that was
// never sent included, says that Redis is unavailable, and nothing about the entry.
func refusesEntry(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false
	}
	met := wire.Cause(answer)
	return !wire.NotNow(met) && !redis.IsAuthError(met)
}
