package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/announce.lua
var announceSource string

var announceScript = wire.NewScript("announce", announceSource, true).Anywhere()

// Announce starts a reshard: it makes next the current shards and notifies all instances. It fails if next does not
// extend the current shards, or if another reshard has changed them. It may be repeated.
func (s *Layout) Announce(ctx context.Context, next keys.Space) error {
	now := s.space.Now()
	if !now.Grows(next) {
		return fmt.Errorf("%w: the new shards do not extend the current ones", ErrLayout)
	}

	done, err := s.replace(ctx, now.Now(), next.Now())
	if err != nil {
		return err
	}
	if !done {
		return fmt.Errorf("%w: the shards were changed by another reshard; start again", wire.ErrUnavailable)
	}

	// An instance that misses the notification learns of the change at its next call on a shard.
	return s.Spread(ctx)
}

// announceAgain writes the shards in known to a Redis that has lost them in a restart. stored are the shards that
// Redis has. If these have changed since they were read, announceAgain writes nothing.
func (s *Layout) announceAgain(ctx context.Context, stored, known keys.Space) error {
	_, err := s.replace(ctx, stored, known) // if the shards have changed again, the next call retries
	return err
}

// replace writes next to notifier:meta if the shards there are still now.
func (s *Layout) replace(ctx context.Context, now, next keys.Space) (done bool, err error) {
	stands := fmt.Sprintf(" %d %d %s %s", Version, now.Shards, strings.Join(now.Tags, ","), strings.Join(now.Former, ","))
	args := []any{stands, "layout", Version, "shards", next.Shards, "tags", strings.Join(next.Tags, ","), "former", strings.Join(next.Former,
		","),
		"replaced", keys.JoinCounts(next.Replaced)}
	n, err := s.w.Int(ctx, announceScript, []string{s.space.Meta()}, args)
	return n == 1, err
}

// Spread copies the shards in notifier:meta to each place, and notifies all instances.
func (s *Layout) Spread(ctx context.Context) error {
	if err := s.Learn(ctx); err != nil {
		return err
	}

	for place := range s.space.Places() { // includes the places that Learn has just added
		if err := s.known(ctx, place); err != nil {
			return err
		}
	}

	if err := errors.Join(s.CopyPaused(ctx), s.copyOrdered(ctx), s.CopyReceivers(ctx)); err != nil {
		return err
	}

	return s.Publish(ctx, "places "+strconv.Itoa(s.space.Places()))
}
