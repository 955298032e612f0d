package ui_test

import (
	"testing"
	"time"

	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/ui"
)

func TestSealedNoticeIsShownToOperatorsOnly(t *testing.T) {
	const card, key = "4111111111111111", "app1:orders:paid:1"
	s := newSite(t, func(table *route.Table) { table.Prefix("app1:orders").Seal = seal.PerRoute })
	s.keep(key, notice.Content{URL: "https://shop.example/", Body: []byte(`{"card":"` + card + `"}`),
		Headers: []notice.Header{{Name: "X-Card", Value: card}}}, time.Hour)
	for _, role := range []auth.Role{auth.Read, auth.Produce} {
		for _, path := range paths(key) {
			testkit.CheckSecrets(t, []string{card}, s.as(ui.Visitor{Role: role}).get(path).body)
		}
		s.as(ui.Visitor{Role: role}).get("/ui/notices/" + key).is(200).says("sealed")
	}
	for _, role := range []auth.Role{auth.Operate, auth.Admin} {
		s.as(ui.Visitor{Role: role}).get("/ui/notices/"+key).is(200).says(card, "X-Card")
	}
}

func TestForgottenNoticeSaysSo(t *testing.T) {
	const key = "app1:orders:paid:1"
	s := newSite(t, func(table *route.Table) { table.Prefix("app1:orders").Seal = seal.PerAudience })
	s.keep(key, notice.Content{URL: "https://shop.example/", Audience: "m17", Body: []byte(`{}`)}, time.Hour)
	if _, err := s.engine.ForgetSubject(t.Context(), seal.AudienceSubject("m17"), ""); err != nil {
		t.Fatal(err)
	}
	s.as(ui.Visitor{Role: auth.Operate}).get("/ui/notices/"+key).is(200).says("forgotten on 20", " UTC")
	s.as(ui.Visitor{Role: auth.Read}).get("/ui/notices/" + key).is(200).says("sealed")
}
