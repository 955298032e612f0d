package vault_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

const merchant = seal.Subject("audience:m_1")

// clock is a clock that moves only when a test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func clocked(i instance) *clock {
	c := &clock{at: time.Unix(1_700_000_000, 0)}
	vault.SetClock(i.vault, c.now)
	return c
}

// found returns a stored notice.
func found(t *testing.T, i instance, key string) store.Found {
	t.Helper()
	f, err := i.store.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func opens(ctx context.Context, i instance, f store.Found) error {
	c, err := i.vault.Open(ctx, f.Shard, f.Key, &f.Content)
	if err == nil && !strings.Contains(string(c.Body), card) {
		err = fmt.Errorf("opened to %s", c.Body)
	}
	return err
}

func forget(t *testing.T, i instance) time.Time {
	t.Helper()
	f, err := i.vault.ForgetSubject(t.Context(), merchant)
	if err != nil || f.Deleted == 0 || time.Since(f.At).Abs() > time.Minute {
		t.Fatal(f, err)
	}
	return f.At
}

// gone checks that an error says when the subject was forgotten.
func gone(t *testing.T, err error, at time.Time) {
	t.Helper()
	if got := vault.ForgottenAt(err); !got.Equal(at) || errors.Is(err, vault.ErrSealed) {
		t.Errorf("forgotten at %s: %v", at, err)
	}
}

func TestOtherInstanceDropsTheKeysOfAForgottenSubject(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a, b := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience), start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience)
	hand := clocked(b)
	scheduled(t, a, request("shop:order:paid:O1"))
	f := found(t, b, "shop:order:paid:O1")
	if err := opens(t.Context(), b, f); err != nil {
		t.Fatal(err)
	}

	at := forget(t, a)
	gone(t, opens(t.Context(), a, f), at)
	hand.advance(vault.KeyAge - 1)
	if err := opens(t.Context(), b, f); err != nil { // proves that the key is in memory
		t.Errorf("before the key is old: %v", err)
	}
	_, seals, err := b.vault.OpenFor(t.Context(), f.Shard, f.Notice)
	if err != nil {
		t.Fatal(err)
	}
	hand.advance(1)
	gone(t, opens(t.Context(), b, f), at)
	if answer, err := seals("an answer"); err != nil || answer == "" {
		t.Errorf("the attempt in flight: %q, %v", answer, err)
	}
	_, err = b.calls.Schedule(t.Context(), request("shop:order:paid:O2"))
	gone(t, err, at)
	for _, r := range b.calls.Many(t.Context(), []store.Request{request("shop:order:paid:O3")}) {
		gone(t, r.Err, at)
	}
}

func TestFrozenRedisEndsTheUseOfKeys(t *testing.T) {
	srv := testkit.StartRedis(t)
	a := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience)
	hand := clocked(a)
	scheduled(t, a, request("shop:order:paid:O1"))
	f := found(t, a, "shop:order:paid:O1")
	if err := opens(t.Context(), a, f); err != nil {
		t.Fatal(err)
	}

	srv.Pause()
	defer srv.Unpause()
	hand.advance(vault.KeyAge - 1)
	if err := opens(t.Context(), a, f); err != nil {
		t.Errorf("before the key is old: %v", err)
	}
	hand.advance(1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := opens(ctx, a, f); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("with an old key and no Redis: %v", err)
	}
}

// An instance seals with a key that it has in memory: Redis refuses the notice, and then the new key.
func TestKeyInMemorySealsNothingForAForgottenSubject(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a, b := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience), start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience)
	clocked(b) // stands
	scheduled(t, b, request("shop:order:paid:O1"))
	at := forget(t, a)
	_, err := b.calls.Schedule(t.Context(), request("shop:order:paid:O2"))
	gone(t, err, at)
	if _, err := b.store.Find(t.Context(), prefix, "shop:order:paid:O2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("stored: %v", err)
	}
	other := request("shop:order:paid:O3")
	other.Audience = "m_2"
	scheduled(t, b, other)
	if err := opens(t.Context(), a, found(t, a, other.Key)); err != nil {
		t.Errorf("another audience: %v", err)
	}
}

func TestSchedulingAndForgettingAtOnceLeavesNoReadableNotice(t *testing.T) {
	for range 20 {
		srv := testkit.SharedRedis(t)
		a, b := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience), start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience)
		hand := clocked(b)
		var wg sync.WaitGroup
		const n = 8
		errs := make([]error, n)
		for i := range n {
			wg.Go(func() { _, errs[i] = b.calls.Schedule(t.Context(), request(fmt.Sprintf("shop:order:paid:O%d", i))) })
		}
		f, err := a.vault.ForgetSubject(t.Context(), merchant)
		wg.Wait()
		if err != nil {
			t.Fatal(err)
		}

		hand.advance(vault.KeyAge)
		for i, err := range errs {
			if err != nil {
				gone(t, err, f.At)
				continue
			}
			gone(t, opens(t.Context(), b, found(t, b, fmt.Sprintf("shop:order:paid:O%d", i))), f.At)
		}
		for name := range sealsOf(t, srv, 0) {
			if !strings.HasPrefix(name, "forgotten:") {
				t.Errorf("the hash has %s still", name)
			}
		}
	}
}

func sealsOf(t *testing.T, srv *testkit.Redis, shard int) map[string]string {
	t.Helper()
	space := keys.Space{Namespace: srv.Namespace(), Shards: 3}
	all, err := srv.Client().HGetAll(t.Context(), space.Seals(shard)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLiftedSubjectHasNewKeys(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a, b := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience), start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience)
	clocked(b) // its keys stay in memory
	scheduled(t, b, request("shop:order:paid:O1"))
	at := forget(t, a)
	for _, want := range []bool{true, false} {
		if was, err := a.vault.Lift(t.Context(), merchant); err != nil || was != want {
			t.Errorf("lifted %v, %v; want %v", was, err, want)
		}
	}
	for i, x := range []instance{a, b} {
		key := fmt.Sprintf("shop:order:paid:N%d", i)
		scheduled(t, x, request(key))
		for _, y := range []instance{a, b} {
			if err := opens(t.Context(), y, found(t, y, key)); err != nil {
				t.Error(err)
			}
		}
	}
	gone(t, opens(t.Context(), a, found(t, a, "shop:order:paid:O1")), at)

	if again := forget(t, a); !again.After(at) && !again.Equal(at) {
		t.Errorf("forgotten again at %s, first at %s", again, at)
	}
	if f, err := a.vault.ForgetSubject(t.Context(), merchant); err != nil || f.Deleted != 0 {
		t.Errorf("nothing is left: %d, %v", f.Deleted, err)
	}
}

// A process may be killed after any command of a forget: the next one does the missing steps.
func TestRepeatedForgetCompletesInEachShard(t *testing.T) {
	for done := range 4 { // shards before the kill
		srv := testkit.SharedRedis(t)
		a := startSharded(t, srv, 3)
		texts := map[int]store.Found{}
		for i := 0; len(texts) < 3; i++ {
			key := fmt.Sprintf("shop:order:paid:O%d", i)
			scheduled(t, a, request(key))
			f := found(t, a, key)
			texts[f.Shard] = f
		}
		// A second data key of the subject, as a renewal will leave it.
		own := sealsOf(t, srv, 2)
		id := strings.Fields(own[string(merchant)])[0]
		extra := seal.NewDataKey().ID
		if err := srv.Client().HSet(t.Context(), a.store.Space().Seals(2), extra, own[id]).Err(); err != nil {
			t.Fatal(err)
		}
		for shard := range done {
			if err := vault.ForgetIn(t.Context(), a.vault, shard, merchant); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if _, err := a.vault.ForgetSubject(t.Context(), merchant); err != nil {
				t.Fatal(err)
			}
		}
		for shard, f := range texts {
			if err := opens(t.Context(), a, f); vault.ForgottenAt(err).IsZero() {
				t.Errorf("shard %d after %d: %v", shard, done, err)
			}
			names := slices.Sorted(maps.Keys(sealsOf(t, srv, shard)))
			// The subject, its key, and the one of shard 2.
			if n := 3; len(names) != n || slices.ContainsFunc(names, func(s string) bool { return !strings.HasPrefix(s, "forgotten:") }) {
				t.Errorf("shard %d has %q, want %d marks", shard, names, n)
			}
		}
	}
}

// An instance may read that a subject has no keys, before the subject is forgotten.
func TestNewKeysOfAForgottenSubjectAreRefused(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience)
	f, err := a.vault.ForgetSubject(t.Context(), merchant) // before its first notice
	if err != nil || f.Deleted != 0 {
		t.Fatal(f, err)
	}
	gone(t, vault.Create(t.Context(), a.vault, 0, merchant), f.At)
	if len(sealsOf(t, srv, 0)) != 1 {
		t.Errorf("the hash has %q", sealsOf(t, srv, 0))
	}
}

// A mark that is malformed still refuses.
func TestAnyMarkRefuses(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience)
	if err := srv.Client().HSet(t.Context(), a.store.Space().Seals(0), "forgotten:"+string(merchant), "soon").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.calls.Schedule(t.Context(), request("shop:order:paid:O1")); vault.ForgottenAt(err).IsZero() {
		t.Errorf("%v", err)
	}
}
