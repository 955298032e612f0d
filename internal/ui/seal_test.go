package ui_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/doctor"
	"notifier/internal/history"
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

func TestSealedQueryIsOnPagesOfOperatorsOnly(t *testing.T) {
	const card, key = "4111111111111111", "app1:orders:paid:1"
	s := newSite(t, func(table *route.Table) {
		r := table.Prefix("app1:orders")
		r.Seal, r.SealURL = seal.PerRoute, true
	})
	s.keep(key, notice.Content{URL: "https://shop.example/paid?card=" + card}, time.Hour)
	for _, role := range []auth.Role{auth.Read, auth.Produce} {
		s := s.as(ui.Visitor{Role: role})
		for _, path := range paths(key) {
			testkit.CheckSecrets(t, []string{card}, s.get(path).body)
		}
		s.get("/ui/notices/"+key).is(200).says("https://shop.example/paid", "query sealed")
	}
	for _, role := range []auth.Role{auth.Operate, auth.Admin} {
		s.as(ui.Visitor{Role: role}).get("/ui/notices/"+key).is(200).says("https://shop.example/paid?card="+card).saysNot("query sealed",
			"address as scheduled")
	}
}

func TestSealedEntryIsShownToOperatorsOnly(t *testing.T) {
	const card, key = "4111111111111111", "app1:orders:paid:1"
	s, a := newSite(t, func(table *route.Table) { table.Prefix("app1:orders").Seal = seal.PerAudience }), &archive{}
	s.history = a
	s.keep(key, notice.Content{URL: "https://shop.example/", Audience: "m17", Body: []byte(`{"card":"` + card + `"}`),
		Headers: []notice.Header{{Name: "X-Card", Value: card}}}, time.Hour)
	f, err := s.engine.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	a.put(key, notice.EndCancelled, func(r *history.Row) { r.Notice, r.BodySize = f.Notice, -1 })
	a.put("app1:orders:paid:2", notice.EndCancelled, func(r *history.Row) { r.Content, r.BodySize, r.BodyKept = notice.Content{}, -1, false })
	for _, role := range []auth.Role{auth.Read, auth.Operate} {
		s := s.as(ui.Visitor{Role: role})
		page := s.get("/ui/notices/" + key + "?ended").is(200).says("From the history").saysNot("s1c:")
		if role == auth.Read {
			testkit.CheckSecrets(t, []string{card}, page.body)
			page.says("sealed").saysNot("0 bytes", "-1 byte")
		} else {
			page.says(card, "X-Card", "27 bytes")
		}
		entries, err := s.engine.Audited(t.Context(), audit.Range{}, 10)
		if want := map[auth.Role]int{auth.Read: 0, auth.Operate: 1}[role]; err != nil || len(entries) != want {
			t.Errorf("%s: %d entries of the audit, %v; want %d", role, len(entries), err, want)
		}
		s.get("/ui/notices/app1:orders:paid:2").is(200).says("not kept ( NOTIFIER_HISTORY_BODIES )").saysNot("0 bytes", "-1 byte")
		for _, path := range paths(key) {
			page := s.get(path)
			if page.saysNot("s1c:"); role == auth.Read {
				testkit.CheckSecrets(t, []string{card}, page.body)
			}
		}
	}
}

func TestPagesThatShowSealedContentAreInTheAudit(t *testing.T) {
	const key = "app1:orders:paid:1"
	s := newSite(t, func(table *route.Table) { table.Prefix("app1:orders").Seal = seal.PerRoute })
	s.keep(key, notice.Content{URL: "https://shop.example/", Body: []byte(`{}`)}, time.Hour)
	opened := func() (list []string) {
		entries, err := s.engine.Audited(t.Context(), audit.Range{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			list = append(list, fmt.Sprintf("%s %s %s %s%s", e.Action, e.Client, e.Via, e.Key, e.Prefix))
		}
		return list
	}
	s.as(ui.Visitor{Role: auth.Produce}).get("/ui/notices/" + key).is(200)
	if list := opened(); len(list) > 0 {
		t.Errorf("%q", list)
	}
	for range 3 {
		s.as(ui.Visitor{Role: auth.Operate}).get("/ui/notices/" + key).is(200)
	}
	if list := opened(); !slices.Equal(list, []string{"open me pages " + key}) {
		t.Errorf("%q", list)
	}
	s.engine.Move(key, notice.Dead, notice.ReasonGone)
	s.as(ui.Visitor{Role: auth.Operate}).get("/ui/dead/download?route=orders&reason=gone").is(200)
	if list := opened(); len(list) != 2 || list[0] != "open me pages app1:orders" {
		t.Errorf("%q", list)
	}
}

func TestForgottenNoticeSaysSo(t *testing.T) {
	const key = "app1:orders:paid:1"
	s := newSite(t, func(table *route.Table) { table.Prefix("app1:orders").Seal = seal.PerAudience })
	s.keep(key, notice.Content{URL: "https://shop.example/", Audience: "m17", Body: []byte(`{}`)}, time.Hour)
	if _, err := s.engine.ForgetSubject(t.Context(), seal.AudienceSubject("m17"), ""); err != nil {
		t.Fatal(err)
	}
	for _, role := range []auth.Role{auth.Read, auth.Produce, auth.Operate} {
		s.as(ui.Visitor{Role: role}).get("/ui/notices/"+key).is(200).says("forgotten on 20", " UTC")
	}
	entries, err := s.engine.Audited(t.Context(), audit.Range{}, 10)
	if i := slices.IndexFunc(entries, func(e audit.Entry) bool { return e.Action == audit.Open }); err != nil || i >= 0 {
		t.Errorf("opened: %v, %v", entries, err)
	}
}

// The page has the same count of keys by service key as notifier doctor.
func TestDoctorPageCountsKeysByServiceKey(t *testing.T) {
	s := newSite(t)
	s.examine = func(context.Context) (*doctor.Report, error) {
		return &doctor.Report{Findings: []doctor.Finding{{Check: "seal", Severity: doctor.Info,
			Message: "keys of sealed notices by service key: 2026-05: 7, 2026-11: 12",
			Remedy:  "to remove a service key, run notifier seal --rewrap first"}}}, nil
	}
	s = s.as(ui.Visitor{})
	s.get("/ui/doctor").is(200).says("keys of sealed notices by service key: 2026-05: 7, 2026-11: 12", "run notifier seal --rewrap first")
	s.in("zh-CN", "", "/ui/doctor").says("各服务密钥下的已加密通知密钥数：2026-05: 7, 2026-11: 12", "请先运行 notifier seal --rewrap")
}
