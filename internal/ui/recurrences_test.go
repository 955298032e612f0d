package ui_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
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
	s.get("/ui/recurrences").is(200).says("No recurring notices.", "New recurring notice")
	s.define(recur.Definition{Key: "app1:orders:daily:books", Spec: recur.Spec{Cron: "0 2 * * *", Zone: "Asia/Shanghai"},
		Content: notice.Content{Body: []byte(`"unseen"`)}})
	page := s.get("/ui/recurrences").is(200).says("app1:orders:daily:books active Pause Run now Delete…",
		"Delete the recurring notice 0 2 * * * Asia/Shanghai", "18:00").
		saysNot("unseen")
	if n := strings.Count(page.body, "18:00:00.000Z"); n < 5 {
		t.Errorf("the page shows %d times, want the next five", n)
	}

	s.define(recur.Definition{Key: "app1:orders:poll:bank", Spec: recur.Spec{Every: 15 * time.Minute}})
	s.get("/ui/recurrences").says("every 15m")
	s.in("zh-CN", "", "/ui/recurrences").says("每 15 分钟").saysNot("every")
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

// The form shows the next ticks before anything is stored, and each fault beside its field.
func TestRecurrenceIsCreatedAndDeleted(t *testing.T) {
	s := newSite(t)
	const list, form, key = "/ui/recurrences", "/ui/recurrences/new", "app1:orders:daily:books"
	fields := []string{"key", key, "cron", "0 2 * * *", "zone", "Asia/Shanghai", "url", "https://shop.example/hook", "body", `{"a": 1}`,
		"overlap", "skip", "expires", "1h"}
	s.get(form).is(200).says("Cron expression", "Preview").saysNot("Create")
	before := s.engine.Changes()
	wrong := s.post(form, "key", "app1:orders:daily:books", "cron", "61 * * * *", "expires", "soon", "overlap", "wait").is(422).
		says("Cron expression Not accepted: ", "Expires after Not a duration",
			"While an earlier notice is pending default allow skip wait Not accepted: ").
		saysNot("Create")
	if !strings.Contains(wrong.body, `aria-describedby="wrong-cron"`) || !strings.Contains(wrong.body, `value="61 * * * *"`) {
		t.Error("the form loses what was given, or does not tie the fault to its field")
	}
	s.post(form, "key", "app9:a:b:c", "every", "1h").is(422).says("No route matches this key.")
	s.post(form, "key", key, "every", "soon", "url", "https://shop.example/hook").is(422).
		says("Interval Not a duration").saysNot("Not accepted")
	s.post(form, "key", key).is(422).says("Cron expression Not accepted: is missing, and so is every; want cron")
	s.post(list, "key", key, "every", "1ms").is(422).says("Interval Not accepted: ")
	page := s.post(form, fields...).is(200).says("Next ticks", "02:00:00 Asia/Shanghai", "Create")
	if n := strings.Count(page.body, "18:00:00.000Z"); n < 5 {
		t.Errorf("the preview shows %d times, want the next five", n)
	}
	if n := s.engine.Changes() - before; n != 0 {
		t.Errorf("%d changes before anything was created", n)
	}

	made := s.press(page, list).says("The recurring notice is created.", key+" active", "0 2 * * * Asia/Shanghai")
	d, err := s.engine.Recurrences().Get(t.Context(), key)
	if err != nil || d.Overlap != recur.OverlapSkip || d.Content.ExpiresAfter != time.Hour || string(d.Content.Body) != `{"a": 1}` {
		t.Errorf("%+v, %v", d, err)
	}
	s.post(form, fields...).is(422).says("A recurring notice has this key.").saysNot("Create")
	s.press(made, list+"/"+key+"/delete").says("The recurring notice is deleted.", "No recurring notices.")

	mine := s.as(ui.Visitor{Prefix: "app2"})
	mine.post(form, fields...).is(422).says("You may only create recurring notices under app2")
	mine.post(list, fields...).is(422)
	reader := s.as(ui.Visitor{Role: auth.Read})
	reader.get(form).is(403)
	reader.post(list, fields...).is(403)
	if _, err := s.engine.Recurrences().Get(t.Context(), key); !errors.Is(err, store.ErrNotDefined) {
		t.Errorf("after the deletion and refused calls: %v", err)
	}
	entries, err := s.engine.Audited(t.Context(), audit.Range{}, 20)
	noted := map[audit.Action]int{}
	for _, e := range entries {
		if e.Key == key && e.Client == "me" && e.Via == audit.Pages {
			noted[e.Action]++
		}
	}
	if err != nil || noted[audit.Recur] != 1 || noted[audit.RecurDelete] != 1 {
		t.Errorf("the audit has %v, %v", noted, err)
	}
}

// A visitor neither sees nor changes recurring notices of other prefixes, and portal links show none.
func TestRecurrencesOfOthersAreNotShown(t *testing.T) {
	s := newSite(t)
	s.define(hourly("app1:orders:t:mine"))
	s.define(hourly("app2:a:b:theirs"))
	mine := s.as(ui.Visitor{Prefix: "app1"})
	mine.get("/ui/recurrences").is(200).says("app1:orders:t:mine active Pause Run now", "every 1h").saysNot("theirs")
	before := s.engine.Changes()
	for _, verb := range []string{"pause", "resume", "run", "delete"} {
		there := mine.post("/ui/recurrences/app2:a:b:theirs/" + verb).is(404)
		if absent := mine.post("/ui/recurrences/app2:a:b:absent/" + verb).is(404); absent.body != there.body {
			t.Errorf("%s: the answers differ", verb)
		}
		s.as(ui.Visitor{Role: auth.Read}).post("/ui/recurrences/app1:orders:t:mine/" + verb).is(403)
	}
	if n := s.engine.Changes() - before; n != 0 {
		t.Errorf("%d changes by refused requests", n)
	}
	s.as(ui.Visitor{Role: auth.Read}).get("/ui/recurrences").is(200).says("app1:orders:t:mine").saysNot("Pause", "New recurring notice")
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
	d.From, d.Until, d.MinNumber = time.Unix(1, 0), time.Unix(9000, 0), 1 // from another service
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

// The list shows no content, and when it was forgotten.
func TestSealedRecurrencesAreMarked(t *testing.T) {
	const card = "4111111111111111"
	s := newSite(t, func(table *route.Table) { table.Prefix("app1:orders").Seal = seal.PerAudience })
	d := hourly("app1:orders:daily:books")
	d.Content.Audience, d.Content.Body = "m17", []byte(card)
	d.Content.Headers = []notice.Header{{Name: "X-Card", Value: card}}
	s.define(d)
	for _, role := range []auth.Role{auth.Read, auth.Produce, auth.Operate} {
		page := s.as(ui.Visitor{Role: role}).get("/ui/recurrences").is(200).says("app1:orders:daily:books sealed")
		testkit.CheckSecrets(t, []string{card, "unseen", "s1r:"}, page.body)
	}
	const path = "/ui/recurrences/app1:orders:daily:books"
	s.press(s.get("/ui/recurrences"), path+"/run").says("A notice is scheduled for now.")
	if _, err := s.engine.ForgetSubject(t.Context(), seal.AudienceSubject("m17"), ""); err != nil {
		t.Fatal(err)
	}
	for _, role := range []auth.Role{auth.Read, auth.Produce, auth.Operate} {
		s.as(ui.Visitor{Role: role}).get("/ui/recurrences").is(200).says("forgotten on 20")
	}
	s.in("zh-CN", "", "/ui/recurrences").says("遗忘")
	s.post(path+"/run").is(410).says("Gone", "Its audience or id was forgotten on 20", "Nothing was changed.")
}
