package ui_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/ui"
)

// A search has two sections, each with its own error. A listing without words has one.
func TestSearchListsRedisAndHistory(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	s.keep("app1:orders:paid:live-7", notice.Content{URL: "https://shop.example/x"}, time.Hour)
	a.put("app1:orders:paid:past-7", notice.EndDead, nil)
	a.put("app1:orders:paid:past-7", notice.EndDelivered, nil)
	a.put("app2:orders:paid:past-8", notice.EndDelivered, nil)

	s.get("/ui/notices").says("live-7", "History", "1 notice").saysNot("past-7", "In Redis")
	page := s.get("/ui/notices?q=app1:orders:paid:").is(200)
	page.says("In Redis", "live-7", "History", "past-7", "HTTP 410 · gone", "1 notice", "2 entries").saysNot("past-8")
	s.get("/ui/notices?q=part%3D7").says("live-7", "Text and parts of keys need a time").saysNot("past-7", "Download CSV")
	s.get("/ui/notices?q=part%3D7&since=-3h").says("past-7", "Download CSV").saysNot("past-8")
	s.get("/ui/notices?state=scheduled").says("live-7", "The history has finalized notices only")
	s.get("/ui/notices?route=orders&state=dead").says("No notice matches", "past-7", "1 entry")
	s.get("/ui/notices?q=%2F").says("Text is searched in the history only", "need a time")
	s.get("/ui/notices?q=%2F+2d").says("past-7").saysNot("live-7")
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/notices?q=2d").says("past-8").saysNot("past-7", "live-7")
	s.as(ui.Visitor{Prefix: "app1", Host: "other.example"}).get("/ui/notices?q=2d").says("No entry matches").saysNot("past-7")

	older := a.rows[1]
	s.get("/ui/notices/app1:orders:paid:past-7?ended="+older.ID()+".1").is(200).says("an earlier finalized notice", "Delivered")
	s.get("/ui/notices/app1:orders:paid:past-7?ended=msg_0.1").is(404)

	a.err = fmt.Errorf("%w: x", history.ErrSlow)
	s.get("/ui/notices?q=app1:orders:paid:").is(200).says("live-7", "The search of the history took too long")
	a.err = history.ErrBusy
	s.get("/ui/notices?q=app1:").is(200).says("live-7", "Too many searches of the history")
	a.err = history.ErrUnavailable
	s.get("/ui/notices?q=app1:orders:paid:none").is(200).says("No notice matches", "The history database is unavailable")
}

// A webhook-id is found in the history and in Redis.
func TestSearchForWebhookID(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	const key = "app1:orders:paid:live"
	s.keep(key, notice.Content{URL: "https://shop.example/x"}, time.Hour)
	s.keep("app1:orders:paid:other", notice.Content{URL: "https://shop.example/x"}, time.Hour)
	a.put("app1:orders:paid:past", notice.EndDelivered, nil)
	f, err := s.engine.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	live, past := f.ID(), a.rows[0].ID()

	s.get("/ui/notices?q="+past).is(200).says("No notice matches", "app1:orders:paid:past", "1 entry")
	s.get("/ui/notices?id="+past+"&q="+url.QueryEscape("app1:")).is(200).says("No notice matches", "app1:orders:paid:past")
	for _, query := range []string{"route=orders", "q=app1:ord", "q="} {
		s.get("/ui/notices?id="+live+"&"+query).is(200).says(key).saysNot("paid:other", "Next page", "Continue search")
	}
	to := s.get("/ui/notices?id=" + live + "&q=" + key).is(303).Header.Get("Location")
	if to != "/ui/notices/"+key {
		t.Error(to)
	}
	to = s.get("/ui/notices?id=" + past + "&q=app1:orders:paid:past").is(303).Header.Get("Location")
	if to != "/ui/notices/app1:orders:paid:past?ended="+past+".1" {
		t.Error(to)
	}
	s.get("/ui/notices?id=msg_1&route=orders").says("not a webhook-id")
}
