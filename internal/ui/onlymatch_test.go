package ui_test

import (
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/ui"
)

// An order number of exactly one visible key leads to the notice, from Redis and from the history, and back to all matches.
func TestOrderNumberLeadsToItsOnlyNotice(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	s.keep("app1:orders:paid:4711", notice.Content{URL: "https://shop.example/x"}, time.Hour)
	s.keep("app1:orders:paid:47110", notice.Content{URL: "https://shop.example/x"}, time.Hour)
	a.put("app1:orders:paid:4712", notice.EndDelivered, nil)
	for _, order := range []string{"4711", "4712"} {
		key := "app1:orders:paid:" + order
		to := s.get("/ui/notices?q=" + order).is(303).Header.Get("Location")
		if want := "/ui/notices/" + key + "?found=" + order; to != want {
			t.Fatalf("%s leads to %s, want %s", order, to, want)
		}

		back := s.get(to).is(200).says("The only notice with the order number "+order, "All matches").links("/ui/notices?list=")
		if len(back) != 1 {
			t.Fatalf("the notice leads back to %q", back)
		}
		s.get(back[0]).is(200).says(key)
	}

	s.get("/ui/notices?q=471").is(200).says("4711", "47110") // the beginning of several
	s.get("/ui/notices?q=4711+scheduled").is(200).says("app1:orders:paid:4711")
	s.get("/ui/history?q=4712").is(200).says("app1:orders:paid:4712")
	s.get("/ui/notices/app1:orders:paid:4711?found=%3Cb%3E").is(200).saysNot("The only notice")

	a.put("app1:orders:refund:4711", notice.EndDead, nil)
	s.get("/ui/notices?q=4711").is(200).says("app1:orders:paid:4711", "app1:orders:refund:4711")
	a.put("app2:x:y:4712", notice.EndDead, nil)
	s.get("/ui/notices?q=4712").is(200).says("app1:orders:paid:4712", "app2:x:y:4712")
	s.as(ui.Visitor{Prefix: "app1"}).get("/ui/notices?q=4712").is(303)
}

// A section that was not read to its end may have another notice with the order number.
func TestOrderNumberOfUnfinishedSearchIsListed(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	s.keep("app1:orders:paid:4711", notice.Content{URL: "https://shop.example/x"}, time.Hour)
	a.err = history.ErrUnavailable
	s.get("/ui/notices?q=4711").is(200).says("app1:orders:paid:4711", "need a time")
	a.err = nil
	for range 60 {
		a.put("app1:orders:refund:47110", notice.EndDelivered, nil)
	}
	s.get("/ui/notices?q=4711").is(200).says("app1:orders:paid:4711")
}
