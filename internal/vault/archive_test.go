package vault_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// shelf is an archive.
type shelf struct {
	values map[string]string
	err    error
	asked  int
}

func (s *shelf) SealKey(_ context.Context, id string) (string, error) {
	s.asked++
	return s.values[id], s.err
}

func TestArchiveOpensWhatRedisHasLost(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerRoute)
	const key = "shop:order:paid:O1"
	scheduled(t, a, request(key))
	f, err := a.store.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := seal.ParseText(f.Sealed)
	if err != nil {
		t.Fatal(err)
	}
	values, err := a.vault.Keys(t.Context(), f.Shard, []string{text.DataKey})
	if err != nil || len(values) != 1 {
		t.Fatal(values, err)
	}
	now := time.Now()
	vault.SetClock(a.vault, func() time.Time { return now })
	s := &shelf{}
	a.vault.Consult(s)
	open := func() error {
		now = now.Add(vault.KeyAge)
		c, err := a.vault.Open(t.Context(), f.Shard, key, &f.Content)
		if err == nil && string(c.Body) != string(request(key).Body) {
			t.Errorf("opened: %s", c.Body)
		}
		return err
	}
	if err := open(); err != nil || s.asked != 0 {
		t.Errorf("Redis has the key: %v, %d asked", err, s.asked)
	}

	if err := a.store.Wire().Redis.Del(t.Context(), a.store.Space().Seals(f.Shard)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := open(); !errors.Is(err, vault.ErrSealed) || s.asked != 1 {
		t.Errorf("none has the key: %v, %d asked", err, s.asked)
	}
	s.err = errors.New("broken") // such a notice waits, and is not dead
	if err := open(); !errors.Is(err, vault.ErrSealed) || !vault.ForgottenAt(err).IsZero() {
		t.Errorf("the archive does not answer: %v", err)
	}
	at := now
	s.err = &vault.ForgottenError{At: at}
	if err := open(); !vault.ForgottenAt(err).Equal(at) {
		t.Errorf("forgotten: %v", err)
	}
	s.values, s.err, s.asked = values, nil, 0
	for want := range 3 {
		if err := open(); err != nil || s.asked != want+1 {
			t.Errorf("the archive has the key: %v, %d asked", err, s.asked)
		}
		if _, err := a.vault.Open(t.Context(), f.Shard, key, &f.Content); err != nil || s.asked != want+1 {
			t.Errorf("within KeyAge: %v, %d asked", err, s.asked)
		}
	}

	if err := a.vault.Seal(t.Context(), f.Shard, seal.RouteSubject(prefix), key, &f.Content); err != nil {
		t.Fatal(err)
	}
	if again, err := seal.ParseText(f.Content.Sealed); err != nil || again.DataKey == text.DataKey {
		t.Errorf("sealed with a key that Redis does not have: %v", err)
	}
}
