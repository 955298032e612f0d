package ui_test

import (
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/ui"
)

func TestReportPage(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	a.put("app1:orders:paid:past-7", notice.EndDelivered, nil)
	s.get("/ui/report?month=2026-11").is(200).says("shop.example", "75.00 %", "12ms", "Download CSV", "Total")
	s.in("zh-CN", "", "/ui/report?month=2026-11").is(200).says("12 毫秒").saysNot("12ms")
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/report?month=2026-11").is(200)
	q := a.report
	if q.Prefix != "app2" || !q.Since.Equal(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)) ||
		q.Until.Sub(q.Since) != 720*time.Hour {
		t.Errorf("%+v", q)
	}
	s.get("/ui/report.csv?month=2026-11").is(200).says("shop.example,6,3,3,")
	s.get("/ui/report?month=4711").is(200).says("Not a month")
	s.get("/ui/report?by=host").is(200).says("Reports are by receiver, route or type")
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/report.csv?prefix=app1").is(422)
}
