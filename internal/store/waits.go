package store

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/waits.lua
var waitsSource string

var waitsScript = wire.NewScript("waits", WithParts(waitsSource), false)

// AddWaits sets Waits and WaitsFor of the parked notices of a list. A notice without a postponed score is
// not parked, so most lists cost nothing; others cost one call for each partition that they contain.
func (s *Store) AddWaits(ctx context.Context, list ...*Found) error {
	by := map[keys.Partition][]*Found{}
	for _, f := range list {
		if f.mayWait() {
			p := keys.Partition{Prefix: f.Route, Shard: f.Shard}
			by[p] = append(by[p], f)
		}
	}

	for p, all := range by {
		if err := s.addWaits(ctx, p, all); err != nil {
			return err
		}
	}

	return nil
}

// mayWait reports whether the notice may be parked. The claim that parks a notice postpones it.
func (f *Found) mayWait() bool {
	if f.Notice == nil || f.State != notice.Scheduled {
		return false
	}

	score, err := strconv.ParseFloat(f.score, 64)
	return f.Waits || err == nil && score-math.Floor(score) >= heldUntimed
}

// addWaits is AddWaits for notices of one partition.
func (s *Store) addWaits(ctx context.Context, p keys.Partition, list []*Found) error {
	args := make([]any, len(list))
	for i, f := range list {
		args[i] = f.Key
	}

	v, err := s.Layout.Parts(ctx, waitsScript, len(list), []string{s.space.Shadow(p)}, args)
	if err != nil {
		return err
	}

	for i, f := range list {
		a, _ := v[i].([]any)
		if len(a) != 3 {
			return s.w.Fail(waitsScript.Op, fmt.Errorf("unexpected answer %T", v[i]))
		}

		f.Waits = a[1] == int64(1)
		f.WaitsFor, _ = a[2].(string)
		if score, _ := a[0].(string); score != "" { // it may have been unparked since f was read
			f.setScore(score)
		}
	}

	return nil
}

// setScore sets the score in the shadow.
func (f *Found) setScore(text string) {
	if score, err := strconv.ParseFloat(text, 64); err == nil {
		f.score, f.next = text, time.UnixMilli(int64(score)).UTC()
	}
}
