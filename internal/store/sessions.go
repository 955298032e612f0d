package store

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/endsession.lua
var endSessionSource string

// endSessionScript may run although Redis is full: who signs out because the
// cookie was stolen must not depend on it.
var endSessionScript = newScript("endsession", endSessionSource, false).anywhere()

// EndSession implements session.Register, as what follows does.
func (s *Store) EndSession(ctx context.Context, id string, during time.Duration) error {
	_, err := s.run(ctx, endSessionScript, []string{s.space.EndedSession(id)}, []any{max(during.Milliseconds(), 1)})
	return err
}

// SessionStands reports whether a session has not been ended, and its link, if
// not empty, is there.
func (s *Store) SessionStands(ctx context.Context, id, link string) (bool, error) {
	var ended, linked *redis.IntCmd
	_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		ended = p.Exists(ctx, s.space.EndedSession(id))
		if link != "" {
			linked = p.Exists(ctx, s.space.Link(link))
		}
		return nil
	})
	if err != nil {
		return false, s.fail("session", err)
	}
	return ended.Val() == 0 && (linked == nil || linked.Val() == 1), nil
}

// KeepLink notes a link for a time.
func (s *Store) KeepLink(ctx context.Context, id, text string, during time.Duration) error {
	if err := s.c.Set(ctx, s.space.Link(id), text, during).Err(); err != nil {
		return s.fail("link", err)
	}
	return nil
}

// Link is what was noted of a link; empty if nothing is.
func (s *Store) Link(ctx context.Context, id string) (string, error) {
	text, err := s.c.Get(ctx, s.space.Link(id)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", s.fail("link", err)
	}
	return text, nil
}

// DropLink forgets a link.
func (s *Store) DropLink(ctx context.Context, id string) error {
	if err := s.c.Del(ctx, s.space.Link(id)).Err(); err != nil {
		return s.fail("link", err)
	}
	return nil
}
