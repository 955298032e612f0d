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
)

//go:embed lua/push.lua
var pushSource string

var pushScript = newScript("push", pushSource, true).anywhere()

// Push appends an entry to a list or stream by itself, where the settle cannot
// do it: in a cluster, when the target lies in another slot. It leaves a marker there
// for as long as keep: the same push made again, here or by another instance, does
// nothing and is a success. After ErrUnanswered it may be there or not.
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
	err := pushScript.bare.plain.run(ctx, func(ctx context.Context, w once) *redis.Cmd { return send(ctx, c, w) }, ks, args).Err()
	var answer redis.Error
	if err != nil && (mayHaveRun(err) || errors.As(err, &answer) && notNow(answer)) {
		return Wrap("push", errors.Join(notice.ErrUnanswered, err))
	}
	return Wrap("push", err)
}
