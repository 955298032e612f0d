package auth

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func (s *SessionStore) begin(t *testing.T, client, link, id string) {
	t.Helper()
	if err := s.BeginSession(t.Context(), client, link, id, time.Hour); err != nil {
		t.Fatal(err)
	}
}

func (s *SessionStore) stands(t *testing.T, client, link, id string, want bool) {
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
	if err := s.BeginSession(ctx, "c", "L", "b", time.Hour); !errors.Is(err, ErrBadLink) {
		t.Errorf("of a link that is not there: %v", err)
	}
	if err := s.KeepLink(ctx, StoredLink{"c", "L", "text", time.Hour}, MaxLinks); err != nil {
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
	if err := s.DropLink(ctx, "c", "L"); err != nil {
		t.Fatal(err)
	}
	s.stands(t, "c", "L", "d", false)
	noted("L", "")
	if err := s.BeginSession(ctx, "c", "L", "e", time.Hour); !errors.Is(err, ErrBadLink) {
		t.Errorf("of a link that was revoked: %v", err)
	}
	if n, err := s.Wire.Redis.Exists(ctx, s.Wire.Space.LinkSessions("L")).Result(); err != nil || n != 0 {
		t.Errorf("sessions of a link that was revoked are kept: %d, %v", n, err)
	}
}

func TestResendsOfALinkAreLimited(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	key := s.Wire.Space.LinkResends("L")
	count := func(link string) time.Duration {
		t.Helper()
		wait, err := s.CountResend(t.Context(), link)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	for i := range MaxResends {
		if wait := count("L"); wait != 0 {
			t.Fatalf("resend %d waits for %s", i+1, wait)
		}
	}
	if wait := count("L"); wait <= 0 || wait > ResendsWithin {
		t.Errorf("one resend more waits for %s", wait)
	}
	if wait := count("M"); wait != 0 {
		t.Errorf("a resend of another link waits for %s", wait)
	}

	// A minute after the first of the last ten, the next one is counted, and one only.
	long := time.Now().Add(-ResendsWithin - time.Second).UnixMilli()
	if err := s.Wire.Redis.LSet(t.Context(), key, 0, long).Err(); err != nil {
		t.Fatal(err)
	}
	if first, next := count("L"), count("L"); first != 0 || next <= 0 {
		t.Errorf("a minute later they wait for %s and %s", first, next)
	}
	n, err := s.Wire.Redis.LLen(t.Context(), key).Result()
	ttl, terr := s.Wire.Redis.PTTL(t.Context(), key).Result()
	if err != nil || terr != nil || n != MaxResends || ttl <= 0 || ttl > ResendsWithin {
		t.Errorf("%d times are kept for %s, %v, %v", n, ttl, err, terr)
	}
}

// A link's sessions take at most one key and MaxSessions members, and no sign-out is
// dropped to keep to that.
func TestSessionsOfALinkAreBounded(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	ctx := t.Context()
	if err := s.KeepLink(ctx, StoredLink{"c", "L", "text", time.Hour}, MaxLinks); err != nil {
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
	var full *SessionsFull
	if err := s.BeginSession(ctx, "c", "L", "more", time.Hour); !errors.As(err, &full) || full.Wait <= 59*time.Minute ||
		full.Wait > time.Hour {
		t.Errorf("one session more: %v, wait %+v", err, full)
	}
	s.stands(t, "c", "L", "0", true)
	// A new session ends the client's session that expires first, so that a client cannot be locked
	// out.
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

// Regression test: the number of a client's links had no bound.
func TestLinksOfAClientAreItsShare(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	ctx := t.Context()
	keep := func(client, id string, full bool) {
		t.Helper()
		var err *LinksFull
		got := s.KeepLink(ctx, StoredLink{client, id, "text", time.Hour}, 3)
		if errors.As(got, &err) != full || full && err.Most != 3 || !full && got != nil {
			t.Errorf("link %s of %s: %v", id, client, got)
		}
		if text, err := s.Link(ctx, id); err != nil || (text != "") == full {
			t.Errorf("link %s: %q, %v", id, text, err)
		}
	}
	for _, id := range []string{"A", "B", "C"} {
		keep("one", id, false)
	}
	keep("one", "D", true)
	keep("two", "E", false)

	// A revoked link and an expired one make room.
	if err := s.DropLink(ctx, "one", "A"); err != nil {
		t.Fatal(err)
	}
	keep("one", "F", false)
	keep("one", "G", true)
	if err := s.Wire.Redis.ZAdd(ctx, s.Wire.Space.ClientLinks("one"), redis.Z{Score: 1, Member: "B"}).Err(); err != nil {
		t.Fatal(err)
	}
	keep("one", "H", false)
	keep("one", "I", true)
	if ttl, err := s.Wire.Redis.PTTL(ctx, s.Wire.Space.ClientLinks("one")).Result(); err != nil || ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("the client's links are kept for %s, %v", ttl, err)
	}
}

// A client that has as many sessions as it may ends its own, and leaves those of others and of links.
func TestSessionsOfAClientEndNoOthers(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	if err := s.KeepLink(t.Context(), StoredLink{"one", "L", "text", time.Hour}, MaxLinks); err != nil {
		t.Fatal(err)
	}
	s.begin(t, "two", "", "theirs")
	s.begin(t, "one", "L", "visitor")
	for i := range MaxSessions + 10 {
		s.begin(t, "one", "", fmt.Sprint(i))
	}
	s.stands(t, "two", "", "theirs", true)
	s.stands(t, "one", "L", "visitor", true)
	s.stands(t, "one", "", fmt.Sprint(MaxSessions+9), true)
	if n, err := s.Wire.Redis.ZCard(t.Context(), s.Wire.Space.ClientSessions("one")).Result(); err != nil || n != MaxSessions {
		t.Errorf("%d sessions, %v", n, err)
	}
}

// Operators sign in and out, and revoke links, although Redis is full.
func TestSessionsThoughRedisIsFull(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	s := storeOn(t, srv.URL(), "n")
	if err := s.KeepLink(t.Context(), StoredLink{"c", "L", "text", time.Hour}, MaxLinks); err != nil {
		t.Fatal(err)
	}
	if err := srv.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepLink(t.Context(), StoredLink{"c", "M", "text", time.Hour}, MaxLinks); err == nil {
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
	if err := s.DropLink(t.Context(), "c", "L"); err != nil {
		t.Error(err)
	}
	s.stands(t, "c", "L", "b", false)
}

func TestLinksAreCopied(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	far := storeOn(t, testkit.StartRedis(t).URL(), s.Wire.Space.Namespace)
	ctx := t.Context()
	const text = `{"client":"c","prefix":"app1"}`
	for _, id := range []string{"GOOD", "REVOKED", "LATER"} {
		if err := s.KeepLink(ctx, StoredLink{"c", id, text, time.Hour}, MaxLinks); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(at *SessionStore, id string) {
		t.Helper()
		if err := at.DropLink(ctx, "c", id); err != nil {
			t.Fatal(err)
		}
	}
	drop(s, "REVOKED")
	for range 2 {
		if err := s.CopyLinks(ctx, far); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{"GOOD": text, "REVOKED": "", "LATER": text} {
		if got, err := far.Link(ctx, id); err != nil || got != want {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	if ttl, err := far.Wire.Redis.PTTL(ctx, far.Wire.Space.Link("GOOD")).Result(); err != nil || ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("kept for %s, %v", ttl, err)
	}
	if n, err := far.Wire.Redis.ZCard(ctx, far.Wire.Space.ClientLinks("c")).Result(); err != nil || n != 2 {
		t.Errorf("the client has %d links there, %v; want 2", n, err)
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

// A session or a link that cannot be looked up is not taken as one that has ended.
func TestSessionsThoughRedisIsAway(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	s := storeOn(t, srv.URL(), "n")
	s.begin(t, "c", "", "a")
	srv.Kill()
	ctx := t.Context()
	stands, serr := s.SessionStands(ctx, "c", "", "a")
	text, lerr := s.Link(ctx, "L")
	_, rerr := s.CountResend(ctx, "L")
	if stands || text != "" {
		t.Errorf("the session stands: %v, link %q", stands, text)
	}
	for what, err := range map[string]error{"stands": serr, "link": lerr, "resend": rerr,
		"keep": s.KeepLink(ctx, StoredLink{"c", "L", "text", time.Hour}, MaxLinks),
		"drop": s.DropLink(ctx, "c", "L"), "begin": s.BeginSession(ctx, "c", "L", "b", time.Hour), "end": s.EndSession(ctx, "c", "", "a"),
		"copy": s.CopyLinks(ctx, s)} {
		if !errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func openStore(t *testing.T) (*SessionStore, *testkit.Redis) {
	t.Helper()
	srv := testkit.SharedRedis(t)
	return storeOn(t, srv.URL(), srv.Namespace()), srv
}

func storeOn(t *testing.T, url, namespace string) *SessionStore {
	t.Helper()
	w := wire.New(wire.Options{Client: testkit.Client(t, url), Space: keys.Space{Namespace: namespace, Shards: 1}})
	if err := w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}

	return &SessionStore{w}
}
