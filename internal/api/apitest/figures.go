package apitest

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// What only the pages ask of an engine.

// Tell sets what instances list as theirs besides this one, and what it lists as
// its own figures.
func (e *Engine) Tell(own fleet.Figures, others ...fleet.Instance) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.figures, e.others = own.Encode(), others
}

// SetMinutes sets what all instances did, minute by minute.
func (e *Engine) SetMinutes(list ...fleet.Minute) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.minutes = list
}

// Minutes answers what SetMinutes said, once.
func (e *Engine) Minutes(_ context.Context, behind string, _ time.Time) ([]fleet.Minute, string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil || behind != "" {
		return nil, behind, e.fail
	}
	return e.minutes, "1-0", nil
}

// Forecast counts what falls due.
func (e *Engine) Forecast(_ context.Context, prefix string, span time.Duration, n int) ([]int64, []wire.Lost, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]int64, n)
	for _, f := range e.kept {
		if at := int(f.Due.Sub(now()) / span); f.Route == prefix && f.State == notice.Scheduled && f.Due.After(now()) && at < n {
			out[at]++
		}
	}
	return out, e.missing, e.fail
}

// Miss has some nodes of Redis missing from what follows.
func (e *Engine) Miss(nodes ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missing = nil
	for i, n := range nodes {
		e.missing = append(e.missing, wire.Lost{Node: n, Shards: []int{i}, Err: wire.ErrUnavailable})
	}
}

// Shards is one.
func (e *Engine) Shards() int { return 1 }

// AmendMany changes dead letters.
func (e *Engine) AmendMany(_ context.Context, op store.Amendment, list []store.Amended) (int, []wire.Lost, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return 0, nil, e.fail
	}
	n := 0
	for _, a := range list {
		f := e.kept[a.Key]
		if f == nil || f.State != notice.Dead {
			continue
		}
		if n++; op == store.Purge {
			f.State, f.SettledAt = notice.Cancelled, now()
			continue
		}
		revive(f)
		f.Due = when(now(), a.Due, a.Delay)
	}
	e.changes += n
	return n, e.missing, nil
}

// Add keeps a notice as it is given.
func (e *Engine) Add(f store.Found) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept[f.Key] = &f
}

func (e *Engine) told() json.RawMessage { return slices.Clone(e.figures) }
