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

// About describes an instance: the configuration that it publishes with its heartbeats.
type About struct {
	Label   string    `json:"label"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Takeover is in ms. At 0 the claims of the instance are reclaimed only when their leases end.
	Takeover int64 `json:"takeover_ms,omitempty"`
	// Routes are the digests of the routes' configurations by route name. Comparing them shows
	// which routes two instances have configured differently.
	Routes map[string]string `json:"routes"`
	// Prefixes are the prefixes of the routes, by route name.
	Prefixes map[string]string `json:"prefixes,omitempty"`
	// FollowsRecorded is true if the instance leaves the notices under recorded prefixes to workers.
	FollowsRecorded bool `json:"follows_recorded,omitempty"`
	// Worker is true if the instance only has handlers in its program. Its routes are not those of the service.
	Worker bool `json:"worker,omitempty"`
	// Forgets is true if the instance stops using the keys of a forgotten subject: see package vault.
	Forgets bool `json:"forgets,omitempty"`
	// Limits is the scope of the instance's limits: "fleet" or "instance".
	Limits string `json:"limits,omitempty"`
	// Keys are the sorted ids of the public keys that the instance publishes. Signing are the
	// sorted ids of the keys that sign.
	Keys    []string `json:"keys,omitempty"`
	Signing []string `json:"signing,omitempty"`
	// SealKeys are the service keys of sealed notices, as seal.ServiceKeys.IDs: the instance wraps with the first, if it can.
	SealKeys []string `json:"seal_keys,omitempty"`
}

// Differences returns the names of the routes that the instance has configured differently from one with the routes own,
// or that only one of them has. It returns nil for a worker, and if an instance has not published its routes.
func (x *About) Differences(own map[string]string) []string {
	a, b := own, x.Routes
	if a == nil || b == nil || x.Worker {
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

// idLength is the length of an instance's id: 60 bits in as few characters as possible, because
// each claim's token begins with the id.
const idLength = 12

func newID() string { return strings.ToLower(rand.Text()[:idLength]) }

// validID reports whether a string has the form of an instance's id. Other programs may write to
// the fleet's keys.
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

// decode parses the description of an instance. It returns a zero About for invalid text.
func decode(text string) (a About) {
	if len(text) > MaxAbout || json.Unmarshal([]byte(text), &a) != nil {
		return About{}
	}

	return a
}

// State is the state of an instance in a listing.
type State string

// States of a listed instance. Instances that are dead or have left are not listed.
const (
	Alive        State = "living"
	Leaving      State = "leaving"
	Unresponsive State = "silent"
)

// Instance is an entry in the list of instances.
type Instance struct {
	ID string
	State
	About
	// Seen is the time of the last heartbeat, by Redis's clock.
	Seen time.Time
	// Age is the time since the last heartbeat, when the list was read.
	Age time.Duration
	// Figures are the published figures of the instance, as JSON. Empty if there are none.
	Figures json.RawMessage
}

// Lister reads the heartbeats and descriptions of all instances. *[Store] is one.
type Lister interface {
	Heartbeats(ctx context.Context) (now int64, list []LastHeartbeat, err error)
	Descriptions(ctx context.Context, ids []string) ([]Description, error)
}

// SealKeys returns the service keys of each living instance that has any, as seal.ServiceKeys.IDs.
func SealKeys(ctx context.Context, l Lister) (lists [][]string, err error) {
	list, err := List(ctx, l)
	for _, x := range list {
		if x.State == Alive && len(x.SealKeys) > 0 {
			lists = append(lists, x.SealKeys)
		}
	}

	return lists, err
}

// List returns all instances, the latest heartbeat first. The caller need not be an instance: the
// states follow from the age of the heartbeats alone.
func List(ctx context.Context, l Lister) ([]Instance, error) {
	now, heartbeats, err := l.Heartbeats(ctx)
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}

	list := make([]Instance, 0, len(heartbeats))
	for _, s := range heartbeats {
		if validID(s.ID) {
			list = append(list, Instance{ID: s.ID, State: stateAt(s, now), Seen: time.UnixMilli(s.At).UTC(),
				Age: time.Duration(now-s.At) * time.Millisecond})
		}
	}

	for from := 0; from < len(list); from += MaxAsked {
		page := list[from:min(from+MaxAsked, len(list))]
		ids := make([]string, len(page))
		for i := range page {
			ids[i] = page[i].ID
		}

		described, err := l.Descriptions(ctx, ids)
		if err != nil {
			return nil, fmt.Errorf("list instances: %w", err)
		}

		for i, t := range described {
			page[i].About = decode(t.About)
			if len(t.Figures) <= MaxAbout && json.Valid([]byte(t.Figures)) {
				page[i].Figures = json.RawMessage(t.Figures)
			}
		}
	}

	return list, nil
}

func stateAt(s LastHeartbeat, now int64) State {
	switch {
	case now-s.At >= missedUnresponsive*maxInterval.Milliseconds():
		return Unresponsive
	case s.Leaving:
		return Leaving
	}

	return Alive
}
