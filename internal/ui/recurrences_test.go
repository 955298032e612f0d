package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/store"
	"notifier/internal/ui"
)

// define stores a recurring notice.
func (s *site) define(d recur.Definition) {
	s.t.Helper()
	if d.Content.URL == "" {
		d.Content.URL = "https://u:unseen@shop.example/hook"
	}

	if _, _, err := s.engine.Recurrences().Put(s.t.Context(), d); err != nil {
		s.t.Fatal(err)
	}
}

// hourly returns a definition with a tick each hour, the next one in half an hour.
func hourly(key string) recur.Definition {
	return recur.Definition{Key: key, Spec: recur.Spec{Every: time.Hour, Anchor: time.Now().Add(30 * time.Minute)}}
}

func TestRecurrencesArePausedResumedAndRun(t *testing.T) {
	s := newSite(t)
	s.get("/ui/recurrences").is(200).says("No recurring notices.", "notifier recur create")
	s.define(recur.Definition{Key: "app1:orders:daily:books", Spec: recur.Spec{Cron: "0 2 * * *", Zone: "Asia/Shanghai"},
		Content: notice.Content{Body: []byte(`"unseen"`)}})
	page := s.get("/ui/recurrences").is(200).says("app1:orders:daily:books active Pause Run now 0 2 * * * Asia/Shanghai", "18:00").
		saysNot("unseen")
	if n := strings.Count(page.body, "18:00:00.000Z"); n < 5 {
		t.Errorf("the page shows %d times, want the next five", n)
	}

	const path = "/ui/recurrences/app1:orders:daily:books"
	page = s.press(page, path+"/pause").says("The recurring notice is paused.", "app1:orders:daily:books paused Resume")
	if len(page.forms(path+"/pause")) > 0 {
		t.Error("the page offers to pause a paused recurring notice")
	}
	s.press(page, path+"/run").says("A notice is scheduled for now.")
	s.get("/ui/notices/app1:orders:daily:books~1").is(200).says("for the tick of 20")
	s.press(page, path+"/resume").says("The recurring notice is resumed.", "app1:orders:daily:books active")
	s.post("/ui/recurrences/app1:orders:daily:none/pause").is(404).says("There is no such recurring notice.")
	s.post("/ui/recurrences/app1:orders:daily:books~1/pause").is(404)

	list, err := s.engine.Audited(t.Context(), audit.Range{}, 20)
	if err != nil {
		t.Fatal(err)
	}
	noted := map[audit.Action]int{}
	for _, e := range list {
		if e.Key == "app1:orders:daily:books" && e.Client == "me" && e.Via == audit.Pages {
			noted[e.Action]++
		}
	}
	if noted[audit.RecurPause] != 1 || noted[audit.RecurResume] != 1 || noted[audit.RecurRun] != 1 {
		t.Errorf("the audit has %v", noted)
	}
}

// A visitor neither sees nor changes recurring notices of other prefixes, and portal links show none.
func TestRecurrencesOfOthersAreNotShown(t *testing.T) {
	s := newSite(t)
	s.define(hourly("app1:orders:t:mine"))
	s.define(hourly("app2:a:b:theirs"))
	mine := s.as(ui.Visitor{Prefix: "app1"})
	mine.get("/ui/recurrences").is(200).says("app1:orders:t:mine active Pause Run now every 1h").saysNot("theirs")
	before := s.engine.Changes()
	for _, verb := range []string{"pause", "resume", "run"} {
		there := mine.post("/ui/recurrences/app2:a:b:theirs/" + verb).is(404)
		if absent := mine.post("/ui/recurrences/app2:a:b:absent/" + verb).is(404); absent.body != there.body {
			t.Errorf("%s: the answers differ", verb)
		}
		s.as(ui.Visitor{Role: auth.Read}).post("/ui/recurrences/app1:orders:t:mine/" + verb).is(403)
	}
	if n := s.engine.Changes() - before; n != 0 {
		t.Errorf("%d changes by refused requests", n)
	}
	s.as(ui.Visitor{Role: auth.Read}).get("/ui/recurrences").is(200).says("app1:orders:t:mine").saysNot("Pause", "notifier recur create")
	link := s.as(ui.Visitor{Prefix: "app1:orders", Host: "shop.example"})
	link.get("/ui/recurrences").is(403).saysNot("app1:orders:t:mine")
	link.get("/ui/notices").is(200).saysNot("Recurrences")
}

func TestRecurrencesAreShownInPages(t *testing.T) {
	s := newSite(t)
	for i := range 51 {
		s.define(hourly(fmt.Sprintf("app1:orders:t:n%02d", i)))
	}
	page := s.get("/ui/recurrences").is(200).says("app1:orders:t:n49", "Next page").saysNot("app1:orders:t:n50")
	_, rest, _ := strings.Cut(page.body, `href="/ui/recurrences?cursor=`)
	cursor, _, _ := strings.Cut(rest, `"`)
	s.get("/ui/recurrences?cursor="+cursor).is(200).says("app1:orders:t:n50").saysNot("app1:orders:t:n49", "Next page")
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/recurrences?cursor=" + cursor).is(400)
}

func TestRecurrencesWithFaults(t *testing.T) {
	s := newSite(t)
	d := hourly("app1:orders:t:over")
	d.From, d.Until = time.Unix(1, 0), time.Unix(9000, 0)
	s.define(d)
	s.get("/ui/recurrences").is(200).says("app1:orders:t:over no more ticks")
	s.recurrences = changing{s.recurrences}
	s.as(ui.Visitor{}).post("/ui/recurrences/app1:orders:t:over/pause").is(http.StatusConflict).says("is being changed by others")
	s.open().get("/ui/recurrences").is(404).says("This service has no recurring notices.")
}

// changing are recurring notices that others change all the time.
type changing struct{ ui.Recurrer }

func (changing) Pause(context.Context, string) (recur.Recurrence, error) {
	return recur.Recurrence{}, store.ErrOtherState
}
