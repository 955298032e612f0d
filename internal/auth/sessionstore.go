package auth

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

//go:embed lua/beginsession.lua
var beginSessionSource string

//go:embed lua/endlink.lua
var endLinkSource string

//go:embed lua/keeplink.lua
var keepLinkSource string

//go:embed lua/countresend.lua
var countResendSource string

// All but keepLinkScript may run although Redis is full: operators sign in to make room, and revoke links.
var (
	beginSessionScript = wire.NewScript("beginsession", beginSessionSource, false).Anywhere()
	endLinkScript      = wire.NewScript("endlink", endLinkSource, false).Anywhere()
	keepLinkScript     = wire.NewScript("keeplink", keepLinkSource, true).Anywhere()
	countResendScript  = wire.NewScript("countresend", countResendSource, false).Anywhere()
)

// SessionStore keeps sessions and links in Redis. Its methods are safe for concurrent use.
type SessionStore struct{ Wire *wire.Client }

// sessions is the key of the sessions of a link, or, if link is empty, of a client.
func (s *SessionStore) sessions(client, link string) string {
	if link == "" {
		return s.Wire.Space.ClientSessions(client)
	}
	return s.Wire.Space.LinkSessions(link)
}

// BeginSession implements Register, as the following methods do.
func (s *SessionStore) BeginSession(ctx context.Context, client, link, id string, during time.Duration) error {
	at := []string{s.sessions(client, link)}
	if link != "" {
		at = append(at, s.Wire.Space.Link(link))
	}

	v, err := s.Wire.Parts(ctx, beginSessionScript, 1, at, []any{id, max(during.Milliseconds(), 1), MaxSessions})
	if err != nil {
		return err
	}

	switch n, _ := v[0].(int64); n {
	case 1:
		return nil
	case -1:
		return ErrBadLink
	}

	var wait int64
	if len(v) > 1 {
		wait, _ = v[1].(int64)
	}

	return &SessionsFull{Wait: time.Duration(max(wait, 1)) * time.Millisecond}
}

// EndSession ends a session.
func (s *SessionStore) EndSession(ctx context.Context, client, link, id string) error {
	if err := s.Wire.Redis.ZRem(ctx, s.sessions(client, link), id).Err(); err != nil {
		return s.Wire.Fail("session", err)
	}
	return nil
}

// SessionStands reports whether a session has not been ended, and its link, if
// not empty, is good.
func (s *SessionStore) SessionStands(ctx context.Context, client, link, id string) (bool, error) {
	var linked *redis.StringCmd
	_, err := s.Wire.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZScore(ctx, s.sessions(client, link), id)
		if link != "" {
			linked = p.Get(ctx, s.Wire.Space.Link(link))
		}

		return nil
	})
	found := err == nil
	if errors.Is(err, redis.Nil) && linked != nil && !errors.Is(linked.Err(), redis.Nil) {
		err = linked.Err() // the pipeline's is that of its first command
	}

	if err != nil && !errors.Is(err, redis.Nil) {
		return false, s.Wire.Fail("session", err)
	}

	return found && (linked == nil || linked.Val() != ""), nil
}

// StoredLink is a link as Redis stores it.
type StoredLink struct {
	Client, ID, Text string
	During           time.Duration
}

// KeepLink stores a link. It returns *LinksFull if its client has most links that have neither expired nor been revoked.
func (s *SessionStore) KeepLink(ctx context.Context, l StoredLink, most int) error {
	kept, err := s.keepLink(ctx, l, most)
	if err == nil && !kept {
		err = &LinksFull{Most: most}
	}

	return err
}

func (s *SessionStore) keepLink(ctx context.Context, l StoredLink, most int) (kept bool, err error) {
	at := []string{s.Wire.Space.Link(l.ID), s.Wire.Space.ClientLinks(l.Client)}
	v, err := s.Wire.Parts(ctx, keepLinkScript, 1, at, []any{l.ID, l.Text, max(l.During.Milliseconds(), 1), most})
	if err != nil {
		return false, err
	}

	n, _ := v[0].(int64)
	return n == 1, nil
}

// Link returns the text stored with a link; empty if there is none or the link has been revoked.
func (s *SessionStore) Link(ctx context.Context, id string) (string, error) {
	text, err := s.Wire.Redis.Get(ctx, s.Wire.Space.Link(id)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", s.Wire.Fail("link", err)
	}

	return text, nil
}

// DropLink revokes a client's link, and ends its sessions.
func (s *SessionStore) DropLink(ctx context.Context, client, id string) error {
	at := []string{s.Wire.Space.Link(id), s.Wire.Space.LinkSessions(id), s.Wire.Space.ClientLinks(client)}
	_, err := s.Wire.Run(ctx, endLinkScript, at, []any{id})
	return err
}

// CountResend counts a resend of a link.
func (s *SessionStore) CountResend(ctx context.Context, link string) (wait time.Duration, err error) {
	at := []string{s.Wire.Space.LinkResends(link)}
	v, err := s.Wire.Parts(ctx, countResendScript, 1, at, []any{MaxResends, ResendsWithin.Milliseconds()})
	if err != nil {
		return 0, err
	}

	left, _ := v[0].(int64)
	return time.Duration(left) * time.Millisecond, nil
}

// CopyLinks copies the links to the dashboard to far. A link that was revoked on either side is revoked
// on far. CopyLinks scans all keys.
func (s *SessionStore) CopyLinks(ctx context.Context, far *SessionStore) error {
	for cursor := uint64(0); ; {
		ks, next, err := s.Wire.Holder(ctx, s.Wire.Space.Link("")).Scan(ctx, cursor, s.Wire.Space.Link("")+"*", 1000).Result()
		if err != nil {
			return s.Wire.Fail("link", err)
		}

		for _, k := range ks {
			if err := s.copyLink(ctx, far, k); err != nil {
				return s.Wire.Fail("link", err)
			}
		}

		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// copyLink copies the link in a key, unless it has expired. A revoked link, which has no text, replaces
// the link on far.
func (s *SessionStore) copyLink(ctx context.Context, far *SessionStore, k string) error {
	text, err := s.Wire.Redis.Get(ctx, k).Result()
	left, terr := s.Wire.Redis.PTTL(ctx, k).Result()
	if errors.Is(err, redis.Nil) || terr == nil && left <= 0 {
		return nil // expired
	}
	if err := errors.Join(err, terr); err != nil {
		return err
	}

	if text == "" {
		return far.Wire.Redis.Set(ctx, k, text, left).Err()
	}

	var n noted
	_ = json.Unmarshal([]byte(text), &n) // a damaged link names no client
	_, err = far.keepLink(ctx, StoredLink{n.Client, strings.TrimPrefix(k, s.Wire.Space.Link("")), text, left}, 0)
	return err
}
