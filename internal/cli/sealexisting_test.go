package cli

import (
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func TestSealCommandSealsExistingNotices(t *testing.T) {
	t.Parallel()
	const card = "4111111111111111"
	srv := testkit.SharedRedis(t)
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
	s := store.New(store.Options{Client: srv.Client(), Space: space, Prefixes: []string{"app1"}})
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := keys.Partition{Prefix: "app1"}
	for _, r := range []store.Request{
		{Key: "app1:m:t:1", Content: notice.Content{URL: "https://shop.example/", Audience: "m_1", Body: []byte(card)}},
		{Key: "app1:m:t:2", Content: notice.Content{URL: "https://shop.example/", Audience: "m_1", Body: []byte(card)}},
		{Key: "app1:m:t:3", Content: notice.Content{URL: "https://shop.example/", Body: []byte("no audience")}},
	} {
		r.Delay = time.Hour
		if _, err := s.Schedule(t.Context(), p, []store.Request{r}); err != nil {
			t.Fatal(err)
		}
	}
	d := newTestCLI(t)
	d.env = []string{"NOTIFIER_REDIS_URL=" + srv.URL(), "NOTIFIER_NAMESPACE=" + srv.Namespace(), "NOTIFIER_ROUTES=shop",
		"NOTIFIER_ROUTE_SHOP_PREFIX=app1", "NOTIFIER_ROUTE_SHOP_TARGET=notice", "NOTIFIER_SEAL_KEYS=" + testkit.SealKeys("k")}
	_, errs := d.run(2, "seal", "--existing")
	contains(t, errs, "no route of NOTIFIER_ROUTES has SEAL")
	d.env = append(d.env, "NOTIFIER_ROUTE_SHOP_SEAL=audience")
	_, errs = d.run(2, "seal", "--existing", "--rewrap")
	contains(t, errs, "want --rewrap or --existing")

	out, _ := d.run(0, "seal", "--existing", "--dry-run")
	contains(t, out, "2 notices to be encrypted", "forgotten: 1 notice; cancel or purge")
	claim := space.Claim("app1:m:t:2")
	if err := srv.Client().Set(t.Context(), claim, "t", 0).Err(); err != nil {
		t.Fatal(err)
	}
	out, errs = d.run(1, "seal", "--existing")
	contains(t, out, "1 notice encrypted")
	contains(t, errs, "1 notice left, because of an attempt or a change at the same time; run the command again")
	if err := srv.Client().Del(t.Context(), claim).Err(); err != nil {
		t.Fatal(err)
	}
	out, _ = d.run(0, "seal", "--existing", "--json")
	contains(t, out, `"sealed": 1`, `"left": 0`, `"refused": 1`)
	for _, record := range srv.Client().HVals(t.Context(), space.Records(p)).Val() {
		testkit.CheckSecrets(t, []string{card}, record)
	}
}
