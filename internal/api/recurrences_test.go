package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/recur"
)

const (
	books    = "/v1/recurrences/app1:jobs:daily:books"
	twoDaily = `{"cron":"0 2 * * *","zone":"Asia/Shanghai","body":{"a": [1, 2]}}`
)

func TestRecurrenceIsPutShownAndDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do("GET", books, "").is(404).says("no recurring notice has the key app1:jobs:daily:books")
	began := time.Now()
	dry := b.do("PUT", books+"?dry_run=true", twoDaily).is(200).says(`"created":false`, `"next":["`, `"body":{"a": [1, 2]}`)
	if n := nextOf(t, dry); len(n) != 5 || n[1].Sub(n[0]) != 24*time.Hour || n[0].UTC().Hour() != 18 || !n[0].After(began) {
		t.Errorf("next %v", n)
	}
	b.do("GET", books, "").is(404)
	made := b.do("PUT", books, twoDaily).is(201).says(`"created":true`, `"route":"jobs"`, `"zone":"Asia/Shanghai"`, `"number":0`)
	if made.header.Get("Location") != books {
		t.Errorf("Location: %q", made.header.Get("Location"))
	}
	b.do("PUT", books, twoDaily).is(200).says(`"created":false`)
	b.do("GET", books, "").is(200).says(`"cron":"0 2 * * *"`, `"body":{"a": [1, 2]}`)
	b.do("PUT", books, `{"every":900,"times":3,"body_text":"x","expires":"1h"}`).is(200).says(`"every":"15m"`, `"times":3`, `"expires":"1h"`)
	if n := nextOf(t, b.do("GET", books, "").is(200)); len(n) != 3 {
		t.Errorf("three times: next %v", n)
	}
	b.do("POST", books+"/pause", "").is(200).says(`"paused":true`)
	b.do("POST", books+"/pause", "").is(200).says(`"paused":true`)
	run := b.do("POST", books+"/run", "").is(201).says(`"key":"app1:jobs:daily:books~`, `"body_base64"`)
	if !strings.HasPrefix(run.header.Get("Location"), "/v1/notices/app1:jobs:daily:books~") {
		t.Errorf("Location: %q", run.header.Get("Location"))
	}
	var n struct {
		Key, Tick string
		Made      string `json:"created_at"`
	}
	run.into(&n)
	tick, err := time.Parse(notice.StampLayout, n.Tick)
	if made, _ := time.Parse(notice.StampLayout, n.Made); err != nil || made.Sub(tick).Abs() > time.Minute {
		t.Errorf("tick %q of a notice of %s: %v", n.Tick, n.Made, err)
	}
	for _, path := range []string{"/v1/notices/" + n.Key, "/v1/notices?prefix=app1:jobs:daily"} {
		b.do("GET", path, "").is(200).says(`"tick":"` + n.Tick + `"`)
	}
	b.do("POST", books+"/resume", "").is(200)
	b.do("DELETE", books, "").is(200).says(`"deleted":true`)
	b.do("DELETE", books, "").is(404)
	b.do("POST", books+"/run", "").is(404)
	b.do("GET", "/v1/audit", "").is(200).says(`"recur"`, `"recur-pause"`, `"recur-resume"`, `"recur-run"`, `"recur-delete"`)
}

// An import of a recurrence gives the number of its last notice, and its tick.
func TestRecurrenceGoesOnAfterAnotherService(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do("PUT", books, `{"cron":"0 2 * * *","body":1,"number":9,"last_tick":"2000-01-01T00:00:00Z"}`).is(201).says(`"number":9`)
	b.do("DELETE", books, "").is(200)
	b.do("PUT", books+"2", `{"cron":"0 2 * * *","body":1,"number":9,"last_tick":"2100-01-01T02:00:00Z"}`).is(201).says(`"number":8`)
	b.do("PUT", books, `{"cron":"0 2 * * *","body":1,"last_tick":"2100-01-01T02:00:00Z"}`).is(422).says("body.last_tick", "needs number")
}

func nextOf(t *testing.T, a answer) []time.Time {
	t.Helper()
	var v struct{ Next []time.Time }
	a.into(&v)
	return v.Next
}

func TestRecurrencesAreListedInPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 7 {
		b.do("PUT", fmt.Sprintf("/v1/recurrences/app%d:jobs:t:n%d", 1+i%2, i), `{"every":"1h","body":"secret text"}`).is(201)
	}
	seen, query := 0, "/v1/recurrences?limit=2"
	for query != "" {
		a := b.do("GET", query, "").is(200)
		if strings.Contains(a.raw, "secret text") {
			t.Errorf("a listing shows bodies: %s", a.raw)
		}
		var page struct {
			Items  []struct{ Key string }
			Cursor string
		}
		a.into(&page)
		seen += len(page.Items)
		if query = ""; page.Cursor != "" {
			query = "/v1/recurrences?limit=2&cursor=" + page.Cursor
		}
	}
	if seen != 7 {
		t.Errorf("%d of 7 were listed", seen)
	}
	if a := b.do("GET", "/v1/recurrences?prefix=app2", "").is(200); strings.Count(a.raw, `"key"`) != 3 {
		t.Errorf("under app2: %s", a.raw)
	}
	b.do("GET", "/v1/recurrences?prefix=app9", "").is(200).says(`"items":[]`)
	b.do("GET", "/v1/recurrences?prefix=a::b", "").is(422)
	b.do("GET", "/v1/recurrences?cursor=x", "").is(400)
}

// A client with a prefix neither sees nor changes recurrences of others, and its answers do not show whether they exist.
func TestRecurrencesOfOthersAreHidden(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, func(o *api.Options) {
		o.Clients = append(o.Clients, auth.Client{Name: "reader", Token: "reader", Prefix: "app1", Role: auth.Read})
	})
	one, two := b.as("token-of-one"), b.as("token-of-two")
	one.do("PUT", books, twoDaily).is(201)
	before := b.engine.Changes()
	two.do("PUT", books, twoDaily).is(403)
	two.do("PUT", books+"?dry_run=true", twoDaily).is(403)
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/pause"}, {"POST", "/resume"}, {"POST", "/run"}} {
		there := two.do(c[0], books+c[1], "").is(404)
		absent := two.do(c[0], strings.ReplaceAll(books, "books", "none")+c[1], "").is(404)
		if strings.ReplaceAll(there.raw, "books", "none") != absent.raw {
			t.Errorf("%v: %s, %s", c, there.raw, absent.raw)
		}
	}
	for _, path := range []string{"/v1/recurrences", "/v1/recurrences?prefix=app1", "/v1/recurrences?prefix=app1:jobs"} {
		two.do("GET", path, "").is(200).says(`"items":[]`)
	}
	reader := b.as("reader")
	reader.do("GET", books, "").is(200)
	for _, c := range [][2]string{{"PUT", ""}, {"DELETE", ""}, {"POST", "/pause"}, {"POST", "/run"}} {
		reader.do(c[0], books+c[1], map[bool]string{true: twoDaily}[c[0] == "PUT"]).is(403)
	}
	if b.engine.Changes() != before {
		t.Error("refused calls changed something")
	}
	b.as("token-of-all").do("GET", books, "").is(200).says(`"client":"one"`)
	if a := one.do("GET", books, "").is(200); strings.Contains(a.raw, `"client"`) {
		t.Errorf("a client with a prefix sees clients: %s", a.raw)
	}
}

// Each refusal names the field and says what would be right.
func TestRecurrenceRefusalsNameTheField(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := strings.Repeat("n", recur.MaxName)
	for _, c := range []struct{ key, body, location, want string }{
		{"app1:jobs:daily:books", `{}`, "body.cron", "want cron such as 0 2 * * *"},
		{"app1:jobs:daily:books", `{"cron":"0 2 * * *","every":"1h"}`, "body.", "want one of them"},
		{"app1:jobs:daily:books", `{"cron":"0 0 30 2 *"}`, "body.cron", "matches no date"},
		{"app1:jobs:daily:books", `{"cron":"61 * * * *"}`, "body.cron", "is no minute; want * or 0-59"},
		{"app1:jobs:daily:books", `{"cron":"* * * * * *"}`, "body.cron", "want five, such as 0 2 * * *"},
		{"app1:jobs:daily:books", `{"cron":"` + strings.Repeat("1,", 100_000) + `1 * * * *"}`, "body.cron", "at most 256"},
		{"app1:jobs:daily:books", `{"cron":"@daily","zone":"asia/shanghai"}`, "body.zone", "want Asia/Shanghai"},
		{"app1:jobs:daily:books", `{"cron":"@daily","zone":"../../etc/passwd"}`, "body.zone", "is not an IANA name"},
		{"app1:jobs:daily:books", `{"cron":"@daily","zone":"Local"}`, "body.zone", "is not an IANA name"},
		{"app1:jobs:daily:books", `{"every":"10ms"}`, "body.every", "is not from 1s to"},
		{"app1:jobs:daily:books", `{"every":"-1h"}`, "body.every", ""},
		{"app1:jobs:daily:books", `{"every":"1h","times":0}`, "body.times", ""},
		{"app1:jobs:daily:books", `{"every":"1h","missed":"none"}`, "body.missed", "skip, latest or all"},
		{"app1:jobs:daily:books", `{"every":"1h","missed_most":3}`, "body.missed_most", "is only for missed=all"},
		{"app1:jobs:daily:books", `{"every":"1h","overlap":"wait"}`, "body.overlap", "ORDER=id"},
		{"app1:jobs:daily:books", `{"every":"1h","expires":"2030-01-01T00:00:00Z"}`, "body.expires", "duration"},
		{"app1:jobs:daily:books", `{"every":"1h","from":"2030-01-01T00:00:00Z","until":"2029-01-01T00:00:00Z"}`, "body.until", "is not after from"},
		{"app1:jobs:daily:books", `{"every":"1h","until":"2020-01-01T00:00:00Z"}`, "body.until", "is before the next tick"},
		{"app1:jobs:daily:books", `{"every":"1h","url":"https://shop.example"}`, "body.url", ""},
		{"app1:jobs:daily:books", `{"every":"1h","body":1,"body_text":"2"}`, "body.body_text", "give one of them"},
		{"app1:jobs:daily:books", `{"every":"1h","key":"x"}`, "body.key", "no such field"},
		{"app1:jobs:daily:" + long + "n", `{"every":"1h"}`, "path.key", "at most 118"},
		{"app1:jobs:daily:books~1", `{"every":"1h"}`, "path.key", "ends in ~ and digits"},
		{"app1:jobs:daily:books~0123456789", `{"every":"1h"}`, "path.key", "ends in ~ and digits"},
		{"app9:jobs:daily:books", `{"every":"1h"}`, "path.key", "no route covers it"},
		{"books", `{"every":"1h"}`, "path.key", "app:module:type"},
	} {
		for _, query := range []string{"", "?dry_run=true"} {
			a := b.do("PUT", "/v1/recurrences/"+c.key+query, c.body).is(422).says(`"location":"`+c.location, c.want)
			if len(a.raw) > 2000 {
				t.Errorf("%.100s: an answer of %d bytes", c.body, len(a.raw))
			}
		}
	}
	b.do("PUT", books, "[").is(400)
	b.do("PUT", books+"?dry_run=x", twoDaily).is(422)
	b.do("PUT", books, `{"every":"1h","body_text":"`+strings.Repeat("x", 300<<10)+`"}`).is(413)
	b.do("GET", "/v1/recurrences/x", "").is(422)
	b.do("PUT", "/v1/recurrences/app1:jobs:daily:"+long, `{"every":"1h"}`).is(201)
	if n := b.engine.Changes(); n != 1 {
		t.Errorf("%d changes, want 1", n)
	}
}

// Secrets in the content of a recurrence are not shown.
func TestRecurrenceHidesSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const path = "/v1/recurrences/app1:orders:daily:x"
	b.do("PUT", path, `{"every":"1h","url":"https://u:hidden1@shop.example/x","headers":{"authorization":"hidden2","x-a":"1"}}`).is(201)
	for _, p := range []string{path, "/v1/recurrences"} {
		if a := b.do("GET", p, "").is(200).says(`"headers_withheld":["authorization"]`, `"x-a":"1"`); strings.Contains(a.raw, "hidden") {
			t.Errorf("a secret is shown: %s", a.raw)
		}
	}
}

func TestServiceWithoutRecurrences(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) { o.Recurrences = nil })
	for _, c := range [][2]string{{"GET", "/v1/recurrences"}, {"GET", books}, {"PUT", books}, {"DELETE", books}, {"POST", books + "/pause"}} {
		b.do(c[0], c[1], map[bool]string{true: twoDaily}[c[0] == http.MethodPut]).is(404).says("has no recurring notices")
	}
}
