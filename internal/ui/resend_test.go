package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"notifier/internal/access"
	"notifier/internal/notice"
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
	s.as(ui.Visitor{Role: access.Read}).get("/ui/notices/" + key).is(200).saysNot("/resend")

	s.post("/ui/notices/"+key+"/resend", "id", f.ID(), "ending", "2").is(409).says("The notice is not resent.", "its current ending is 1, not 2")
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
