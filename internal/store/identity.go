package store

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

//go:embed lua/identity.lua
var identitySource string

// The data identity is a random id of the data in a namespace of a Redis: the field id of notifier:meta, with a copy in
// each shard. The first start writes it with the layout. The command migrate copies it to the new Redis. Home, in
// contrast, names the server. Each shard has another random id, the field part of its copy of the layout, because one
// node of a cluster may lose its data alone. Other ids than the known ones mean that the known data are gone: Redis was
// emptied, or another Redis answers.

// A full Redis must be able to store an identity.
var identityScript = wire.NewScript("identity", identitySource, false).Anywhere()

// identity is what a Layout knows of the identity of its data. It is safe for concurrent use.
type identity struct {
	mu    sync.Mutex
	id    string         // "" = not read yet
	parts map[int]string // by place
}

// known returns the last known data identity; "" = none.
func (i *identity) known() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id
}

// isPart reports whether a place still has the known data. It is true if its data have no known id.
func (i *identity) isPart(place int, id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	was := i.parts[place]
	return was == "" || was == id
}

// part returns the last known id of a place's data; "" = none.
func (i *identity) part(place int) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.parts[place]
}

// setPart sets the id of a place's data.
func (i *identity) setPart(place int, id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.parts == nil {
		i.parts = map[int]string{}
	}

	i.parts[place] = id
}

// set sets the data identity. Other data have other parts.
func (i *identity) set(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.id != id {
		i.id, i.parts = id, nil
	}
}

// Replaced describes data that Redis no longer has, and the data that it has in their place.
type Replaced struct {
	Place    int // the shard; -1 = all data
	Was, Now string
}

// Identity reads the data identity, and creates it if notifier:meta has none. While Redis is unavailable, Identity
// returns the id that it read last; without one, it returns an error, which is [wire.ErrNotBegun] for an empty Redis.
func (s *Layout) Identity(ctx context.Context) (string, error) {
	was := s.identity.known()
	if was != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, KnownTimeout)
		defer cancel()
	}

	id, err := s.readIdentity(ctx)
	now := s.view.Load()
	if now != nil && (errors.Is(err, wire.ErrNotBegun) || err == nil && id != was) {
		err = s.learn(ctx, s.space.Base(0), now) // reports the loss
		id = s.identity.known()
	}

	switch {
	case err == nil:
		if now == nil { // a command that registers no routes
			s.identity.set(id)
		}
		return id, nil
	case was != "" && errors.Is(err, wire.ErrUnavailable):
		return was, nil
	}

	return "", err
}

func (s *Layout) readIdentity(ctx context.Context) (string, error) {
	name := s.space.Meta()
	id, err := s.c.HGet(ctx, name, "id").Result()
	if !errors.Is(err, redis.Nil) {
		return id, s.w.Wrapped("identity", err)
	}

	id, err = s.w.Do(ctx, identityScript, []string{name}, []any{rand.Text()}).Text()
	if err == nil && id == "" {
		return "", wire.ErrNotBegun
	}

	return id, s.w.Wrapped(identityScript.Op, err)
}

// identityIs records the identity in notifier:meta. side is the role of this Redis until now.
func (s *Layout) identityIs(ctx context.Context, meta map[string]string, side Side) (err error) {
	id := meta["id"]
	if id == "" {
		if id, err = s.readIdentity(ctx); err != nil {
			return err
		}
	}

	was := s.identity.known()
	if was != "" && was != id && was != meta[replacedID] && side.State != SideLeft {
		s.o.Watcher.DataReplaced(Replaced{Place: -1, Was: was, Now: id})
	}

	s.identity.set(id) // after the report: CountPending counts no data whose predecessor's loss is not reported yet
	return nil
}

// replacedID is the field of notifier:meta with the identity that a migration has replaced.
const replacedID = "replaced_id"

// TakeIdentity returns the fields of notifier:meta that give the data of this Redis another identity.
func (s *Layout) TakeIdentity(ctx context.Context, id string) ([]any, error) {
	was, err := s.Identity(ctx)
	if err != nil || was == id {
		return []any{"id", id}, err
	}

	return []any{"id", id, replacedID, was}, nil
}

// partIs records the id of a place's data.
func (s *Layout) partIs(place int, id string) {
	if was := s.identity.part(place); was != "" && was != id && s.Side().State != SideLeft {
		s.o.Watcher.DataReplaced(Replaced{Place: place, Was: was, Now: id})
	}

	s.identity.setPart(place, id) // after the report, as in identityIs
}

// copiedIdentity returns the identity for a Redis without notifier:meta: that of another shard of a cluster, whose node
// has kept its data, or a new one.
func (s *Layout) copiedIdentity(ctx context.Context) string {
	found := ""
	if s.w.Cluster {
		r := s.w.NewRound()
		for place := range s.space.Places() {
			_, _ = r.Do(ctx, place, func(ctx context.Context) error { // a node that does not answer has no copy
				if id := s.c.HGet(ctx, s.space.Layout(place), "id").Val(); id != "" {
					found = id
				}
				return nil
			})
		}
	}

	if found == "" {
		return rand.Text()
	}

	return found
}

// Check compares the data in Redis with the known data, in a cluster those of each shard whose node answers.
func (s *Layout) Check(ctx context.Context) error {
	if !s.w.Cluster {
		return s.known(ctx, 0)
	}

	r := s.w.NewRound()
	for place := range s.space.Places() {
		if _, err := r.Do(ctx, place, func(ctx context.Context) error { return s.known(ctx, place) }); err != nil {
			return err
		}
	}

	return nil
}
