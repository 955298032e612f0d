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

// A search has two lists, each with its own error. The history is searched on submit only.
func TestSearchListsRedisAndHistory(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	s.keep("app1:orders:paid:live-7", notice.Content{URL: "https://shop.example/x"}, time.Hour)
	a.put("app1:orders:paid:past-7", notice.EndDead, nil)
	a.put("app1:orders:paid:past-7", notice.EndDelivered, nil)
	a.put("app2:orders:paid:past-8", notice.EndDelivered, nil)

	s.get("/ui/notices?q=app1:orders:paid:").says("In Redis", "live-7", "Search the history").saysNot("past-7")
	page := s.get("/ui/notices?history=1&q=app1:orders:paid:").is(200)
	page.says("In Redis", "live-7", "History", "past-7", "HTTP 410 · gone").saysNot("past-8", "Search the history")
	s.get("/ui/notices?history=1&q=7").says("live-7", "For a part of a key, set a start time").saysNot("past-7")
	s.get("/ui/notices?history=1&q=7&since=-3h").says("past-7").saysNot("past-8")
	s.get("/ui/notices?history=1&state=scheduled").says("live-7", "The history has finalized notices only")
	s.get("/ui/notices?history=1&route=orders&state=dead").says("No notice matches", "past-7")
	s.get("/ui/notices?history=1&q=%2F").says("Not a key").saysNot("history-title")
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/notices?history=1").says("past-8").saysNot("past-7", "live-7")
	s.as(ui.Visitor{Prefix: "app1", Host: "other.example"}).get("/ui/notices?history=1").says("No entry matches").saysNot("past-7")

	older := a.rows[1]
	s.get("/ui/notices/app1:orders:paid:past-7?ended="+older.ID()+".1").is(200).says("an earlier finalized notice", "Delivered")
	s.get("/ui/notices/app1:orders:paid:past-7?ended=msg_0.1").is(404)

	a.err = fmt.Errorf("%w: x", history.ErrSlow)
	s.get("/ui/notices?history=1&q=app1:orders:paid:").is(200).says("live-7", "The search of the history took too long")
	a.err = history.ErrBusy
	s.get("/ui/notices?history=1").is(200).says("live-7", "Too many searches of the history")
	a.err = history.ErrUnavailable
	s.get("/ui/notices?history=1&q=app1:orders:paid:none").is(200).says("No notice matches", "The history database is unavailable")
}

// A webhook-id is found in the history, and in Redis together with a route or the beginning of a key.
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

	s.get("/ui/notices?history=1&q="+past).is(200).says("choose a route, or add the beginning of the key", "app1:orders:paid:past")
	s.get("/ui/notices?history=1&id="+past+"&q="+url.QueryEscape("app1:")).is(200).says("No notice matches", "app1:orders:paid:past")
	for _, query := range []string{"route=orders", "q=app1:ord"} {
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
	s.get("/ui/notices?id=msg_1&route=orders").says("Not a webhook-id")
}
