package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// About is what an instance tells of itself.
type About struct {
	Label   string    `json:"label"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Takeover is in ms; 0 = its claims are never taken over before their lease.
	Takeover int64 `json:"takeover_ms,omitempty"`
	// Routes holds a digest of each route's configuration by its name, so that
	// differences can be named.
	Routes map[string]string `json:"routes,omitempty"`
	// Limits says whom its limits hold for: fleet or instance.
	Limits string `json:"limits,omitempty"`
	// Keys are the ids of the public keys that it publishes, and Signing those of the keys
	// that sign; both sorted.
	Keys    []string `json:"keys,omitempty"`
	Signing []string `json:"signing,omitempty"`
}

// Differences are the names of the routes that two instances are configured with
// differently, or that only one of them has; none where one does not tell its own.
func Differences(a, b map[string]string) []string {
	if a == nil || b == nil {
		return nil
	}
	var names []string
	for name, digest := range a {
		if b[name] != digest {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// idLength is that of an instance's id: 60 bits, as few characters as they
// need, for they begin each claim's token.
const idLength = 12

func newID() string { return strings.ToLower(rand.Text()[:idLength]) }

// validID tells ids from what somebody else may have put among them.
func validID(s string) bool {
	if len(s) != idLength {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// decode reads what an instance tells; what cannot be read is empty.
func decode(text string) (a About) {
	if len(text) > MaxAbout || json.Unmarshal([]byte(text), &a) != nil {
		return About{}
	}
	return a
}

// State is where an instance stands.
type State string

// The states of an instance that is listed. One that is gone or has left is
// listed no more.
const (
	Living  State = "living"
	Leaving State = "leaving"
	Silent  State = "silent"
)

// Instance is an instance as it is listed.
type Instance struct {
	ID string
	State
	About
	// Seen is when it gave its last sign of life, by Redis's clock.
	Seen time.Time
	// Figures are its own, as JSON; empty if it tells none.
	Figures json.RawMessage
}

// Lister reads who gives signs of life. *[Store] is one.
type Lister interface {
	Signs(ctx context.Context) (now int64, list []Sign, err error)
	Told(ctx context.Context, ids []string) ([]Told, error)
}

// List tells of all instances, the latest sign first. Whoever asks need not be
// one of them: it goes by the age of the signs alone.
func List(ctx context.Context, l Lister) ([]Instance, error) {
	now, signs, err := l.Signs(ctx)
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	list := make([]Instance, 0, len(signs))
	for _, s := range signs {
		if validID(s.ID) {
			list = append(list, Instance{ID: s.ID, State: stateAt(s, now), Seen: time.UnixMilli(s.At).UTC()})
		}
	}
	for from := 0; from < len(list); from += MaxAsked {
		page := list[from:min(from+MaxAsked, len(list))]
		ids := make([]string, len(page))
		for i := range page {
			ids[i] = page[i].ID
		}
		told, err := l.Told(ctx, ids)
		if err != nil {
			return nil, fmt.Errorf("list instances: %w", err)
		}
		for i, t := range told {
			page[i].About = decode(t.About)
			if len(t.Figures) <= MaxAbout && json.Valid([]byte(t.Figures)) {
				page[i].Figures = json.RawMessage(t.Figures)
			}
		}
	}
	return list, nil
}

func stateAt(s Sign, now int64) State {
	switch {
	case now-s.At >= beatsSilent*longestBeat.Milliseconds():
		return Silent
	case s.Leaving:
		return Leaving
	}
	return Living
}
