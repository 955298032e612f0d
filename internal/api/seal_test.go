package api_test

import (
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/testkit"
)

func TestSealedNoticeIsOpenedForOperators(t *testing.T) {
	t.Parallel()
	const card, key = "4111111111111111", "app1:orders:paid:1"
	b := newBench(t, func(o *api.Options) {
		for _, role := range []auth.Role{auth.Read, auth.Produce, auth.Operate, auth.Admin} {
			o.Clients = append(o.Clients, auth.Client{Name: role.String(), Token: "token-of-" + role.String(), Role: role})
		}
		o.Routes.Prefix("app1:orders").Seal = seal.PerRoute
	})
	const call = `{"key":"` + key + `","delay":"1h","url":"https://u:` + card + `@shop.example/","body":{"card":"` + card + `"},` +
		`"headers":{"X-Card":"` + card + `"}}`
	made := b.as("token-of-produce").do("POST", "/v1/notices", call).is(201).says(`"sealed":true`)
	testkit.CheckSecrets(t, []string{card}, made.raw)
	b.as("token-of-produce").do("POST", "/v1/notices", call).is(200)
	for _, target := range []string{"/v1/notices/" + key, "/v1/notices?prefix=app1", "/v1/search?q=" + key} {
		for _, role := range []string{"read", "produce"} {
			got := b.as("token-of-"+role).do("GET", target, "").is(200).says(`"sealed":true`)
			testkit.CheckSecrets(t, []string{card}, got.raw)
		}
		for _, role := range []string{"operate", "admin"} {
			b.as("token-of-"+role).do("GET", target, "").is(200).says(`"sealed":true`, `"body":{"card":"`+card+`"}`, "X-Card", "u:xxxxx@shop.example")
		}
	}
}

func TestCallsThatSealedRoutesDoNotSupport(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) { o.Routes.Prefix("app1:orders").Seal = seal.PerAudience })
	b.do("POST", "/v1/notices", `{"key":"app1:orders:paid:1","url":"https://shop.example/"}`).is(422).
		says("audience", "seals the content for each audience")
	b.do("PUT", "/v1/recurrences/app1:orders:paid:1", `{"cron":"0 0 * * *","url":"https://shop.example/","audience":"m"}`).is(422).
		says("seals its notices")
	made := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	id := (&notice.Notice{Key: "app1:orders:paid:1", Made: notice.MadeAt(made)}).ID()
	b.do("POST", "/v1/notices/restore", `[{"key":"app1:orders:paid:1","id":"`+id+`","state":"scheduled",`+
		`"due":"2026-12-01T00:00:00Z","created_at":"2026-11-01T00:00:00Z","url":"https://shop.example/","audience":"m","attempts_made":0,"attempts":[]}]`).
		is(201)
	b.do("GET", "/v1/notices/app1:orders:paid:1", "").is(200).says(`"sealed":true`)
}
