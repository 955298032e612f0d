package layout

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/announce.lua
var announceSource string

var announceScript = wire.NewScript("announce", announceSource, true).Anywhere()

// Announce puts next in the place of the shards there are, in notifier:meta and then in
// each shard, and tells all instances to look. From the first on that an instance, or a
// script of it, comes to, it knows. It may be repeated.
func (s *Layout) Announce(ctx context.Context, next keys.Space) error {
	now := s.space.Now()
	if !now.Grows(next) {
		return fmt.Errorf("%w: the new shards do not go on from those there are", ErrLayout)
	}
	done, err := s.replace(ctx, now.Now(), next.Now())
	if err != nil {
		return err
	}
	if !done {
		return fmt.Errorf("%w: the shards have changed meanwhile; begin again", wire.ErrUnavailable)
	}
	return s.Spread(ctx)
}

// announceAgain announces shards that this Store knows of, where Redis has forgotten that
// they were: it has come back without its last writes. That nothing lies in them any more
// needs no care: all that came after has been forgotten too, or lies there still.
func (s *Layout) announceAgain(ctx context.Context, stands, known keys.Space) error {
	_, err := s.replace(ctx, stands, known) // if it stands otherwise by now, that is looked at again
	return err
}

// replace writes next into notifier:meta if that says now.
func (s *Layout) replace(ctx context.Context, now, next keys.Space) (done bool, err error) {
	stands := fmt.Sprintf(" %d %d %s %s", Version, now.Shards, strings.Join(now.Tags, ","), strings.Join(now.Former, ","))
	args := []any{stands, "layout", Version, "shards", next.Shards, "tags", strings.Join(next.Tags, ","), "former", strings.Join(next.Former, ","),
		"replaced", keys.JoinCounts(next.Replaced)}
	n, err := s.w.Int(ctx, announceScript, []string{s.space.Meta()}, args)
	return n == 1, err
}

// Spread makes what notifier:meta says known in each place, and tells all instances.
func (s *Layout) Spread(ctx context.Context) error {
	if err := s.Learn(ctx); err != nil {
		return err
	}
	for place := range s.space.Places() { // those that were learnt of by this
		if err := s.known(ctx, place); err != nil {
			return err
		}
	}
	if err := s.CopyPaused(ctx); err != nil {
		return err
	}
	return s.Publish(ctx, "places "+strconv.Itoa(s.space.Places()))
}
