package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"notifier/internal/auth"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/ui"
)

func TestPageResendsADeliveredNotice(t *testing.T) {
	s := newSite(t)
	const key = "app1:orders:paid:1"
	s.keep(key, notice.Content{URL: "https://shop.example/"}, 0)
	s.engine.Move(key, notice.Delivered, "")
	f, err := s.engine.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	page := s.get("/ui/notices/" + key).is(200).says("Resend")
	for _, want := range []string{`name="id" value="` + f.ID() + `"`, `name="ending" value="1"`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page does not hold %s", want)
		}
	}
	s.as(ui.Visitor{Role: auth.Read}).get("/ui/notices/" + key).is(200).saysNot("/resend")

	s.post("/ui/notices/"+key+"/resend", "id", f.ID(), "ending", "2").is(409).says("The notice is not resent.",
		"its current ending is 1, not 2")
	form := url.Values{"csrf": {s.csrf}, "id": {f.ID()}, "ending": {"2"}}
	r := httptest.NewRequest(http.MethodPost, "/ui/notices/"+key+"/resend", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://localhost:8080")
	r.Header.Set("Accept-Language", "zh-CN")
	s.do(r).is(409).says("通知未重发。", "该通知当前是第 1 次结束，而不是第 2 次").saysNot("ending")
	s.post("/ui/notices/"+key+"/resend", "id", f.ID(), "ending", "1").is(303)
	if f, err = s.engine.Find(t.Context(), key); err != nil || f.State != notice.Scheduled || f.Resend != 1 {
		t.Errorf("after the resend: %+v, %v", f, err)
	}
	s.get("/ui/notices/" + key + "?said=resent").says("The notice is sent once more")
}

// The page of a resent notice does not say that the notice was redriven, or that it is not delivered yet.
func TestPageOfResentNotice(t *testing.T) {
	s := newSite(t)
	const key, path = "app1:orders:paid:1", "/ui/notices/app1:orders:paid:1"
	resend := func(ending string) {
		t.Helper()
		f, err := s.engine.Find(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		s.post(path+"/resend", "id", f.ID(), "ending", ending).is(303)
	}
	s.keep(key, notice.Content{URL: "https://shop.example/"}, 0)
	s.engine.Move(key, notice.Delivered, "")
	resend("1")
	s.get(path).says("Resent, after 1 attempt in all. Next attempt", "Delivered", "Resent, ladder restarted", "on these pages Attempt 2").
		saysNot("Redriven", "Not delivered yet")

	s.engine.Move(key, notice.Dead, notice.ReasonGone)
	s.get(path).says("Died", "Resent, ladder restarted", "on these pages ! Attempt 2").saysNot("Redriven")
	s.post(path + "/redrive").is(303)
	s.get(path).says("Not delivered yet, after 2 attempts",
		"Resent, ladder restarted", "Dead: gone", "Redriven, ladder restarted", "on these pages Attempt 3")
	s.engine.Move(key, notice.Delivered, "")
	resend("3")
	s.in("zh-CN", "", path).says("已重发，共投递 3 次", "已重发，重试计划从头开始")
}

// A replay keeps the number of the attempts before it, but not the attempts.
func TestPageOfReplayedNotice(t *testing.T) {
	s := newSite(t)
	made := notice.MadeAt(time.Now())
	n := &notice.Notice{Key: "app1:orders:paid:1", Route: "app1:orders", Made: made, Due: time.Now(), Replay: "rpl", AttemptsMade: 2,
		Redriven: 2, Endings: 1, Content: notice.Content{URL: "https://shop.example/"}}
	s.engine.Add(store.Found{State: notice.Scheduled, Notice: n})
	s.get("/ui/notices/app1:orders:paid:1").says("Replayed, after 2 attempts in all",
		"Replayed, ladder restarted Attempt 3").saysNot("Redriven", "Not delivered yet")
}

// The page of a parked notice names the notice that it waits for, to a visitor who may see that one.
func TestPageOfParkedNotice(t *testing.T) {
	s := newSite(t, func(table *route.Table) { table.Name("orders").Order = route.OrderSkip })
	const head, parked = "app1:orders:created:1", "app1:orders:paid:1"
	const path = "/ui/notices/" + parked
	if err := s.engine.Store().Layout.AddOrdered(t.Context(), []string{"app1:orders"}); err != nil {
		t.Fatal(err)
	}
	claim := func(key string) *store.Claimed {
		t.Helper()
		got, err := s.engine.Store().ClaimKeys(t.Context(), keys.Partition{Prefix: "app1:orders"}, store.Lease{Token: "park", For: time.Minute},
			[]string{key})
		if err != nil {
			t.Fatal(err)
		}
		return &got
	}
	s.keep(head, notice.Content{URL: "https://shop.example/"}, 0)
	s.keep(parked, notice.Content{URL: "https://shop.example/"}, 0)
	if got := claim(parked); got.Parked != 1 {
		t.Fatalf("%+v", got)
	}

	s.get(path).says("Waiting for another notice of its sequence (attempt 1 of 10,", "): "+head,
		"Attempt 1, when the other notice no longer holds it back").saysNot("Overdue", "Postponed")
	s.in("zh-CN", "", path).says("正在等待同一序列中的另一个通知（投递次数 1 / 10")
	if got := claim(head); len(got.Won) != 1 {
		t.Fatalf("%+v", got)
	}
	s.get(path).says("Waiting for another notice of its sequence (attempt 1 of 10, in flight): " + head)
	s.as(ui.Visitor{Prefix: "app1:orders:paid"}).get(path).says("Waiting for another notice of its sequence.").saysNot(head)
}
