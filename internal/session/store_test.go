package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/redistest"
	"notifier/internal/wire/wiretest"
)

func (s *Store) begin(t *testing.T, client, link, id string) {
	t.Helper()
	if err := s.BeginSession(t.Context(), client, link, id, time.Hour); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) stands(t *testing.T, client, link, id string, want bool) {
	t.Helper()
	if got, err := s.SessionStands(t.Context(), client, link, id); err != nil || got != want {
		t.Errorf("session %q of %q by link %q stands: %v, %v", id, client, link, got, err)
	}
}

func TestSessionsAndLinks(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	ctx := t.Context()
	noted := func(id, want string) {
		t.Helper()
		if got, err := s.Link(ctx, id); err != nil || got != want {
			t.Errorf("link %q: %q, %v", id, got, err)
		}
	}
	s.stands(t, "c", "", "a", false)
	s.begin(t, "c", "", "a")
	s.stands(t, "c", "", "a", true)
	s.stands(t, "d", "", "a", false)
	s.stands(t, "c", "L", "a", false)
	noted("L", "")
	if err := s.BeginSession(ctx, "c", "L", "b", time.Hour); !errors.Is(err, ErrLink) {
		t.Errorf("of a link that is not there: %v", err)
	}
	if err := s.KeepLink(ctx, "L", "text", time.Hour); err != nil {
		t.Fatal(err)
	}
	noted("L", "text")
	s.begin(t, "c", "L", "b")
	s.begin(t, "c", "L", "d")
	s.stands(t, "c", "L", "b", true)
	s.stands(t, "c", "", "b", false)
	if err := s.EndSession(ctx, "c", "L", "b"); err != nil {
		t.Fatal(err)
	}
	s.stands(t, "c", "L", "b", false)
	s.stands(t, "c", "L", "d", true)
	for _, key := range []string{s.Wire.Space.ClientSessions("c"), s.Wire.Space.LinkSessions("L"), s.Wire.Space.Link("L")} {
		if ttl, err := s.Wire.Redis.PTTL(ctx, key).Result(); err != nil || ttl <= 59*time.Minute || ttl > time.Hour {
			t.Errorf("%s is kept for %s, %v", key, ttl, err)
		}
	}
	if err := s.DropLink(ctx, "L"); err != nil {
		t.Fatal(err)
	}
	s.stands(t, "c", "L", "d", false)
	noted("L", "")
	if err := s.BeginSession(ctx, "c", "L", "e", time.Hour); !errors.Is(err, ErrLink) {
		t.Errorf("of a link that was revoked: %v", err)
	}
	if n, err := s.Wire.Redis.Exists(ctx, s.Wire.Space.LinkSessions("L")).Result(); err != nil || n != 0 {
		t.Errorf("sessions of a link that was revoked are kept: %d, %v", n, err)
	}
}

// A link's sessions take at most one key and MaxSessions members, and no sign-out is
// dropped to keep to that.
func TestSessionsOfALinkAreBounded(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	ctx := t.Context()
	if err := s.KeepLink(ctx, "L", "text", time.Hour); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * MaxSessions {
		id := fmt.Sprint("over", i)
		s.begin(t, "c", "L", id)
		if err := s.EndSession(ctx, "c", "L", id); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Wire.Redis.Exists(ctx, s.Wire.Space.LinkSessions("L")).Result(); err != nil || n != 0 {
		t.Errorf("sessions that have ended are kept: %d, %v", n, err)
	}
	s.stands(t, "c", "L", "over0", false)
	for i := range MaxSessions {
		s.begin(t, "c", "L", fmt.Sprint(i))
	}
	var full *Full
	if err := s.BeginSession(ctx, "c", "L", "more", time.Hour); !errors.As(err, &full) || full.Wait <= 59*time.Minute ||
		full.Wait > time.Hour {
		t.Errorf("one session more: %v, wait %+v", err, full)
	}
	s.stands(t, "c", "L", "0", true)
	// A client loses the session that ends first, so that nobody can lock it out.
	if err := s.BeginSession(ctx, "c", "", "first", time.Minute); err != nil {
		t.Fatal(err)
	}
	for i := range MaxSessions {
		s.begin(t, "c", "", fmt.Sprint(i))
	}
	s.stands(t, "c", "", "first", false)
	s.stands(t, "c", "", "0", true)
	if n, err := s.Wire.Redis.ZCard(ctx, s.Wire.Space.ClientSessions("c")).Result(); err != nil || n != MaxSessions {
		t.Errorf("%d sessions of a client, %v", n, err)
	}
}

// Operators sign in and out, and revoke links, although Redis is full.
func TestSessionsThoughRedisIsFull(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := storeOn(t, srv.URL(), "n")
	if err := s.KeepLink(t.Context(), "L", "text", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := srv.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepLink(t.Context(), "M", "text", time.Hour); err == nil {
		t.Fatal("Redis is not full")
	}
	if info := srv.Client().Info(t.Context(), "server").Val(); !strings.Contains(info, "redis_version:6.") { // from Redis 7 on
		s.begin(t, "c", "", "a")
		s.begin(t, "c", "L", "b")
		s.stands(t, "c", "", "a", true)
		s.stands(t, "c", "L", "b", true)
	}
	if err := s.EndSession(t.Context(), "c", "", "a"); err != nil {
		t.Error(err)
	}
	s.stands(t, "c", "", "a", false)
	if err := s.DropLink(t.Context(), "L"); err != nil {
		t.Error(err)
	}
	s.stands(t, "c", "L", "b", false)
}

func TestLinksAreCopied(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	far := storeOn(t, redistest.Start(t).URL(), s.Wire.Space.Namespace)
	ctx := t.Context()
	for _, id := range []string{"GOOD", "REVOKED", "LATER"} {
		if err := s.KeepLink(ctx, id, "text", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(at *Store, id string) {
		t.Helper()
		if err := at.DropLink(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	drop(s, "REVOKED")
	for range 2 {
		if err := s.CopyLinks(ctx, far); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{"GOOD": "text", "REVOKED": "", "LATER": "text"} {
		if got, err := far.Link(ctx, id); err != nil || got != want {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	if ttl, err := far.Wire.Redis.PTTL(ctx, far.Wire.Space.Link("GOOD")).Result(); err != nil || ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("kept for %s, %v", ttl, err)
	}
	// A link that is revoked on one side stays so.
	drop(far, "GOOD")
	drop(s, "LATER")
	if err := s.CopyLinks(ctx, far); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"GOOD", "LATER"} {
		if got, err := far.Link(ctx, id); err != nil || got != "" {
			t.Errorf("%s is good again: %q, %v", id, got, err)
		}
	}
}

func openStore(t *testing.T) (*Store, *redistest.Server) {
	t.Helper()
	w, srv := wiretest.Open(t)
	return &Store{w}, srv
}

func storeOn(t *testing.T, url, namespace string) *Store {
	t.Helper()
	return &Store{wiretest.On(t, url, namespace)}
}
