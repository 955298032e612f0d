package store

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/session"
	"notifier/internal/wire"
)

//go:embed lua/beginsession.lua
var beginSessionSource string

//go:embed lua/endlink.lua
var endLinkSource string

// Both may run although Redis is full: operators sign in to make room, and revoke links.
var (
	beginSessionScript = wire.NewScript("beginsession", beginSessionSource, false).Anywhere()
	endLinkScript      = wire.NewScript("endlink", endLinkSource, false).Anywhere()
)

// sessions is the key of the sessions of a link, or, if link is empty, of a client.
func (s *Store) sessions(client, link string) string {
	if link == "" {
		return s.space.ClientSessions(client)
	}
	return s.space.LinkSessions(link)
}

// BeginSession implements session.Register, as the following methods do.
func (s *Store) BeginSession(ctx context.Context, client, link, id string, during time.Duration) error {
	at := []string{s.sessions(client, link)}
	if link != "" {
		at = append(at, s.space.Link(link))
	}
	v, err := s.w.Parts(ctx, beginSessionScript, 1, at, []any{id, max(during.Milliseconds(), 1), session.MaxSessions})
	if err != nil {
		return err
	}
	switch n, _ := v[0].(int64); n {
	case 1:
		return nil
	case -1:
		return session.ErrLink
	}
	var wait int64
	if len(v) > 1 {
		wait, _ = v[1].(int64)
	}
	return &session.Full{Wait: time.Duration(max(wait, 1)) * time.Millisecond}
}

// EndSession ends a session.
func (s *Store) EndSession(ctx context.Context, client, link, id string) error {
	if err := s.c.ZRem(ctx, s.sessions(client, link), id).Err(); err != nil {
		return s.w.Fail("session", err)
	}
	return nil
}

// SessionStands reports whether a session has not been ended, and its link, if
// not empty, is good.
func (s *Store) SessionStands(ctx context.Context, client, link, id string) (bool, error) {
	var linked *redis.StringCmd
	_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZScore(ctx, s.sessions(client, link), id)
		if link != "" {
			linked = p.Get(ctx, s.space.Link(link))
		}
		return nil
	})
	found := err == nil
	if errors.Is(err, redis.Nil) && linked != nil && !errors.Is(linked.Err(), redis.Nil) {
		err = linked.Err() // the pipeline's is that of its first command
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, s.w.Fail("session", err)
	}
	return found && (linked == nil || linked.Val() != ""), nil
}

// KeepLink notes a link for a time.
func (s *Store) KeepLink(ctx context.Context, id, text string, during time.Duration) error {
	if err := s.c.Set(ctx, s.space.Link(id), text, during).Err(); err != nil {
		return s.w.Fail("link", err)
	}
	return nil
}

// Link is what was noted of a link; empty if nothing is, or the link has been revoked.
func (s *Store) Link(ctx context.Context, id string) (string, error) {
	text, err := s.c.Get(ctx, s.space.Link(id)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", s.w.Fail("link", err)
	}
	return text, nil
}

// DropLink revokes a link, and ends its sessions.
func (s *Store) DropLink(ctx context.Context, id string) error {
	_, err := s.w.Run(ctx, endLinkScript, []string{s.space.Link(id), s.space.LinkSessions(id)}, nil)
	return err
}

// CopyLinks gives far the links to the pages. A link that was revoked on either side is
// revoked on far. It goes through all keys.
func (s *Store) CopyLinks(ctx context.Context, far *Store) error {
	for cursor := uint64(0); ; {
		ks, next, err := s.w.Holder(ctx, s.space.Link("")).Scan(ctx, cursor, s.space.Link("")+"*", 1000).Result()
		if err != nil {
			return s.w.Fail("link", err)
		}
		for _, k := range ks {
			text, err := s.c.Get(ctx, k).Result()
			left, terr := s.c.PTTL(ctx, k).Result()
			if errors.Is(err, redis.Nil) || terr == nil && left <= 0 {
				continue // it is over
			}
			if err = errors.Join(err, terr); err == nil {
				set := redis.SetArgs{TTL: left}
				if text != "" {
					set.Mode = "NX"
				}
				if err = far.c.SetArgs(ctx, k, text, set).Err(); errors.Is(err, redis.Nil) {
					err = nil // it is there
				}
			}
			if err != nil {
				return s.w.Fail("link", err)
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
