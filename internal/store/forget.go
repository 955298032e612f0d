package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/forget.lua
var forgetSource string

var forgetScript = wire.NewScript("forget", forgetSource, false)

// Forget forgets notices of one partition that are settled or dead, and says how
// many, and how many are pending and stay.
func (s *Store) Forget(ctx context.Context, p keys.Partition, ks []string) (forgotten, pending int, err error) {
	args := make([]any, len(ks))
	for i, k := range ks {
		args[i] = k
	}
	v, err := s.w.Do(ctx, forgetScript, s.space.States(p), args).Int64Slice()
	if err != nil {
		return 0, 0, s.w.Fail(forgetScript.Op, err)
	}
	if len(v) != 2 {
		return 0, 0, fmt.Errorf("forget: %d answers", len(v))
	}
	return int(v[0]), int(v[1]), nil
}

// Now is Redis's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	t, err := s.c.Time(ctx).Result()
	if err != nil {
		return time.Time{}, s.w.Fail("history", err)
	}
	return t.UTC(), nil
}
