package vault_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"notifier/internal/intake"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

const (
	prefix = "shop:order"
	card   = "4111111111111111"
)

// instance is one process on a Redis.
type instance struct {
	store *store.Store
	vault *vault.Vault
	calls *intake.Scheduler
}

func start(t *testing.T, srv *testkit.Redis, k *seal.ServiceKeys, scope seal.Scope) instance {
	t.Helper()
	return startWith(t, srv, k, scope, 1)
}

func startSharded(t *testing.T, srv *testkit.Redis, shards int) instance {
	t.Helper()
	return startWith(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience, shards)
}

func startWith(t *testing.T, srv *testkit.Redis, k *seal.ServiceKeys, scope seal.Scope, shards int) instance {
	t.Helper()
	return startIn(t, srv, k, scope, keys.Space{Namespace: srv.Namespace(), Shards: shards})
}

func startIn(t *testing.T, srv *testkit.Redis, k *seal.ServiceKeys, scope seal.Scope, space keys.Space) instance {
	t.Helper()
	return startAt(t, wire.Address{URL: srv.URL()}, k, scope, space)
}

func startAt(t *testing.T, at wire.Address, k *seal.ServiceKeys, scope seal.Scope, space keys.Space) instance {
	t.Helper()
	c, err := wire.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := store.New(store.Options{Client: c.Commander, Cluster: at.Mode == "cluster", Space: space, Prefixes: []string{prefix},
		Retention: time.Hour, Retain: 1000})
	if err := s.Wire().Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	routes, err := route.NewTable([]*route.Route{{Name: "orders", Prefix: prefix, Target: route.Target{Kind: route.KindNotice}, Seal: scope}})
	if err != nil {
		t.Fatal(err)
	}
	v := vault.New(k, s.Wire())
	return instance{s, v, intake.NewScheduler(intake.SchedulerOptions{Store: s, Routes: routes, Space: s.Space(), Vault: v})}
}

func request(key string) store.Request {
	return store.Request{Key: key, Delay: time.Hour, Content: notice.Content{URL: "https://user:" + card + "@merchant.example/p?a=1",
		Audience: "m_1", Body: []byte(`{"card":"` + card + `"}`), Headers: []notice.Header{{Name: "X-Card", Value: card}}}}
}

func scheduled(t *testing.T, i instance, r store.Request) store.Reply {
	t.Helper()
	reply, err := i.calls.Schedule(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestSealedNoticeOpensAtEachInstanceWithTheKey(t *testing.T) {
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		srv := testkit.SharedRedis(t)
		a, b := start(t, srv, testkit.ServiceKeys(t, "2026-11"), scope), start(t, srv, testkit.ServiceKeys(t, "2027-01", "2026-11"), scope)
		without := start(t, srv, nil, "")
		const key = "shop:order:paid:O1"
		if r := scheduled(t, a, request(key)); !r.Created {
			t.Fatalf("%+v", r)
		}
		f, err := b.store.Find(t.Context(), prefix, key)
		if err != nil || f.Sealed == "" || strings.Contains(f.Record(), card) || strings.Contains(f.Record(), "X-Card") ||
			f.URL != "https://merchant.example/p?a=1" {
			t.Fatalf("%s, %v", f.Record(), err)
		}
		want := request(key).Content
		c, err := b.vault.Open(t.Context(), f.Shard, key, &f.Content)
		if err != nil || c.URL != want.URL || string(c.Body) != string(want.Body) || len(c.Headers) != 1 || c.Headers[0] != want.Headers[0] {
			t.Errorf("%s: %+v, %v", scope, c, err)
		}
		if _, err := without.vault.Open(t.Context(), f.Shard, key, &f.Content); !errors.Is(err, vault.ErrSealed) {
			t.Errorf("without the key: %v", err)
		}

		if r := scheduled(t, b, request(key)); r.Created || len(r.Differs) > 0 { // another instance, the same call
			t.Errorf("the same call again: %v", r.Differs)
		}
		other := request(key)
		other.Body = []byte(`{"card":"4000000000000000"}`)
		if r := scheduled(t, b, other); r.Created || len(r.Differs) != 1 || r.Differs[0] != "content" {
			t.Errorf("another body: %v", r.Differs)
		}
	}
}

func TestLostDataKeyIsStoredAgainBeforeANoticeIs(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerRoute)
	scheduled(t, a, request("shop:order:paid:O1"))
	if err := a.store.Wire().Redis.Del(t.Context(), a.store.Space().Seals(0)).Err(); err != nil {
		t.Fatal(err)
	}
	if r := scheduled(t, a, request("shop:order:paid:O2")); !r.Created {
		t.Fatalf("%+v", r)
	}
	if err := a.store.Wire().Redis.Del(t.Context(), a.store.Space().Seals(0)).Err(); err != nil {
		t.Fatal(err)
	}
	many := []store.Request{request("shop:order:paid:O3"), request("shop:order:paid:O4")}
	for _, r := range a.calls.Many(t.Context(), many) {
		if r.Err != nil || !r.Created {
			t.Fatalf("%+v", r)
		}
	}
	b := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerRoute)
	f, err := b.store.Find(t.Context(), prefix, "shop:order:paid:O3")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := b.vault.Open(t.Context(), f.Shard, f.Key, &f.Content); err != nil || !strings.Contains(string(c.Body), card) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestNoticeOfBeforeTheSealIsRecognised(t *testing.T) {
	srv := testkit.SharedRedis(t)
	clear, sealed := start(t, srv, nil, ""), start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerRoute)
	scheduled(t, clear, request("shop:order:paid:O1"))
	if r := scheduled(t, sealed, request("shop:order:paid:O1")); r.Created || len(r.Differs) > 0 {
		t.Errorf("%+v", r.Differs)
	}
}

// The text of a recurring notice opens in the definition and its occurrences. Other texts open in one notice, whatever its key looks like.
func TestTextOfARecurringNoticeOpensInItsOccurrencesOnly(t *testing.T) {
	a := start(t, testkit.SharedRedis(t), testkit.ServiceKeys(t, "k"), seal.PerRoute)
	of := seal.RouteSubject(prefix)
	c, own := request("").Content, request("").Content
	if err := a.vault.SealRecurring(t.Context(), 0, of, "shop:order:daily:books", &c); err != nil {
		t.Fatal(err)
	}
	if err := a.vault.Seal(t.Context(), 0, of, "shop:order:daily:books~2", &own); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		key, sealed string
		opens       bool
	}{
		{"shop:order:daily:books", c.Sealed, true}, {"shop:order:daily:books~1", c.Sealed, true},
		{"shop:order:daily:books~999999999", c.Sealed, true}, {"shop:order:daily:books~0", c.Sealed, false},
		{"shop:order:daily:books~01", c.Sealed, false}, {"shop:order:daily:books~1~2", c.Sealed, false},
		{"shop:order:daily:book~1", c.Sealed, false}, {"shop:order:weekly:books~1", c.Sealed, false},
		{"shop:order:daily:books~1", "s1c" + c.Sealed[3:], false}, {"shop:order:daily:books", "s1c" + c.Sealed[3:], false},
		{"shop:order:daily:books~2", own.Sealed, true}, {"shop:order:daily:books", own.Sealed, false},
		{"shop:order:daily:books~3", own.Sealed, false}, {"shop:order:daily:books~2", "s1r" + own.Sealed[3:], false},
	} {
		got, err := a.vault.OpenText(t.Context(), 0, x.key, x.sealed)
		if x.opens && (err != nil || len(got.Body) == 0) || !x.opens && !errors.Is(err, seal.ErrForeign) {
			t.Errorf("%s of %.4s: %+v, %v", x.key, x.sealed, got, err)
		}
	}
}

func TestSealedNoticeTakesAThirdMore(t *testing.T) {
	a := start(t, testkit.SharedRedis(t), testkit.ServiceKeys(t, "k"), seal.PerRoute)
	for _, size := range []int{100, 200, 1000, 10_000} {
		n := &notice.Notice{Key: "shop:order:paid:O1", Made: 1763740785000, Due: time.UnixMilli(1763740800000),
			Content: notice.Content{URL: "https://shop.example/hook", Body: []byte(`{"t":"` + strings.Repeat("x", size-8) + `"}`)}}
		clear := len(store.AppendRecord(nil, n))
		if err := a.vault.SealNotice(t.Context(), 0, seal.RouteSubject(prefix), n); err != nil {
			t.Fatal(err)
		}
		if more := len(store.AppendRecord(nil, n)) - clear - size/3; more < 105 || more > 115 {
			t.Errorf("a body of %d bytes takes %d bytes and a third more", size, more)
		}
	}
}
