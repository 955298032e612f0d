package ui_test

import (
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/ui"
)

// A notice that goes on after its end keeps that end on the timeline, and who made it go on.
func TestTimelineKeepsEndsAndChanges(t *testing.T) {
	s := newSite(t).as(ui.Visitor{})
	const key, path = "app1:orders:paid:1", "/ui/notices/app1:orders:paid:1"
	s.keep(key, notice.Content{URL: "https://shop.example/"}, 0)
	s.engine.Move(key, notice.Dead, notice.ReasonGone)
	s.get(path).says("Attempt 1", "Dead: gone").saysNot("ladder restarted")
	s.post(path + "/redrive").is(303)
	s.get(path).says("Created", "Attempt 1", "Dead: gone", "Redriven, ladder restarted", "by me, on these pages", "Attempt 2")

	s.engine.Move(key, notice.Delivered, "")
	f, err := s.engine.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	s.post(path+"/resend", "id", f.ID(), "ending", "2").is(303)
	s.get(path).says("Attempt 2", "Delivered", "Resent, ladder restarted", "by me, on these pages", "Attempt 3")
	s.post(path + "/cancel").is(303)
	s.get(path).says("Resent, ladder restarted", "by me, on these pages", "Cancelled", "by me, on these pages").saysNot("Attempt 3")

	s.in("zh-CN", "", path).says("已重发，重试计划从头开始", "操作者：me（本页面）", "已取消")
	s.as(ui.Visitor{Host: "shop.example"}).get(path).says("Attempt 1").saysNot("by me", "on these pages")
}

// The history knows ends that the record of a notice no longer does, and a visitor sees changes of other clients only with
// the right to read them.
func TestTimelineOfHistoryAndAudit(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	const key, path = "app1:orders:paid:1", "/ui/notices/app1:orders:paid:1"
	s.keep(key, notice.Content{URL: "https://shop.example/"}, time.Hour)
	f, err := s.engine.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	a.put(key, notice.EndDead, func(r *history.Row) {
		r.Made, r.AttemptsMade, r.Reason, r.Ended = f.Made, 0, notice.ReasonGone, f.Made.Time().Add(time.Second)
	})
	f.Endings = 1
	s.engine.Add(f)
	for _, e := range []audit.Entry{{Client: "me", Action: audit.Reschedule, Via: audit.API}, {Action: audit.Fire, Via: audit.API},
		{Client: "me", Action: audit.Cancel, Via: audit.Pages, Result: audit.Failed}} {
		e.Key = key
		if e.Result == "" {
			e.Result = audit.Done
		}
		if err := s.engine.Audit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	page := s.get(path).is(200)
	page.says("Dead: gone", "Due time changed", "by me, through the API", "Due time set to now", "through the API").saysNot("Cancelled")
	s.as(ui.Visitor{Prefix: "app1"}).get(path).says("Dead: gone", "by me, through the API").saysNot("Due time set to now")
	a.err = history.ErrUnavailable
	s.get(path).is(200).says("Due time changed").saysNot("Dead: gone")
}

// The page of an entry of the history leaves out what was done to later notices of its key.
func TestTimelineOfAnEntry(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	const key = "app1:orders:paid:1"
	a.put(key, notice.EndDelivered, func(r *history.Row) { r.Ended = time.Now().Add(-time.Hour) })
	if err := s.engine.Audit(t.Context(), audit.Entry{Key: key, Client: "later", Action: audit.Fire, Result: audit.Done}); err != nil {
		t.Fatal(err)
	}
	s.get("/ui/notices/" + key).is(200).says("Delivered").saysNot("later")
}

// A letter that had expired did not die of its last attempt. Once it is redriven, its record does not say of what.
func TestTimelineOfExpiredLetter(t *testing.T) {
	s := newSite(t).as(ui.Visitor{})
	const key, path = "app1:orders:paid:1", "/ui/notices/app1:orders:paid:1"
	s.keep(key, notice.Content{URL: "https://shop.example/", ExpiresAfter: time.Hour}, 0)
	s.engine.End(key, notice.RetryResult(notice.ReasonTimeout, ""))
	s.engine.Move(key, notice.Dead, notice.ReasonExpired)
	s.get(path).says("Dead: expired")
	s.post(path+"/redrive", "expires", "2h").is(303)
	s.get(path).says("Attempt 1", " Dead ", "Redriven, ladder restarted", "Attempt 2").saysNot("Dead: timeout")
}
