package store

import (
	"testing"
	"time"

	"notifier/internal/redistest"
)

func TestEndedSessionsAndLinks(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	stands := func(id, link string, want bool) {
		t.Helper()
		if got, err := s.SessionStands(ctx, id, link); err != nil || got != want {
			t.Errorf("session %q by link %q stands: %v, %v", id, link, got, err)
		}
	}
	noted := func(id, want string) {
		t.Helper()
		if got, err := s.Link(ctx, id); err != nil || got != want {
			t.Errorf("link %q: %q, %v", id, got, err)
		}
	}
	stands("a", "", true)
	stands("a", "L", false)
	noted("L", "")
	if err := s.KeepLink(ctx, "L", "text", time.Hour); err != nil {
		t.Fatal(err)
	}
	noted("L", "text")
	stands("a", "L", true)
	if err := s.EndSession(ctx, "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	stands("a", "", false)
	stands("a", "L", false)
	stands("b", "L", true)
	for _, key := range []string{s.space.EndedSession("a"), s.space.Link("L")} {
		if ttl, err := s.c.PTTL(ctx, key).Result(); err != nil || ttl <= 59*time.Minute || ttl > time.Hour {
			t.Errorf("%s is kept for %s, %v", key, ttl, err)
		}
	}
	if err := s.DropLink(ctx, "L"); err != nil {
		t.Fatal(err)
	}
	stands("b", "L", false)
	noted("L", "")
	if err := s.EndSession(ctx, "c", 0); err != nil { // it has ended by itself
		t.Error(err)
	}
}

// Whose cookie was stolen can end it although Redis is full.
func TestASessionEndsThoughRedisIsFull(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := on(t, srv.URL(), "n")
	if err := srv.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepLink(t.Context(), "L", "text", time.Hour); err == nil {
		t.Fatal("Redis is not full")
	}
	if err := s.EndSession(t.Context(), "a", time.Hour); err != nil {
		t.Error(err)
	}
	if ok, err := s.SessionStands(t.Context(), "a", ""); err != nil || ok {
		t.Errorf("%v, %v", ok, err)
	}
}
