package problems

import (
	"context"
	"errors"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// dying is an Engine with dead letters whose causes cannot always be counted.
type dying struct {
	forecasts
	dead  int64
	wrong error
}

func (d *dying) Counts(context.Context) ([]store.Counts, []wire.Lost, error) {
	return []store.Counts{{Prefix: "app1", Dead: d.dead}}, nil, nil
}

func (d *dying) DeadCauses(context.Context, time.Time) (store.DeadCount, error) {
	g := store.DeadGroup{Prefix: "app1", Cause: notice.Cause{Reason: notice.ReasonTimeout}, Count: d.dead}
	return store.DeadCount{Groups: []store.DeadGroup{g}}, d.wrong
}

// TestCausesOfDeathsOutliveAFailedCount checks that a board keeps the causes that it has while they cannot be counted, and says that it is
// outdated. Without dead letters it has none.
func TestCausesOfDeathsOutliveAFailedCount(t *testing.T) {
	e := &dying{dead: 3}
	now := time.Now()
	s := NewSampler(SamplerOptions{Engine: e, Routes: &route.Table{}, Now: func() time.Time { return now }})
	sample := func() *Board {
		now = now.Add(time.Minute)
		return s.Current(t.Context())
	}
	if b := sample(); b.Err != nil || len(b.Deaths) != 1 {
		t.Fatalf("%v, %v", b.Deaths, b.Err)
	}

	e.wrong = errors.New("no answer")
	if b := sample(); b.Err == nil || len(b.Deaths) != 1 {
		t.Errorf("after a failed count: %v, %v", b.Deaths, b.Err)
	}

	if e.wrong, e.dead = nil, 0; len(sample().Deaths) != 0 {
		t.Error("causes without dead letters")
	}
}
