package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"notifier/internal/api"
	"notifier/internal/engine/enginetest"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

const one = `{"key":"app1:orders:paid:1","url":"https://shop.example/hook","delay":"15s","body":{"paid":true}}`

func TestScheduleAndDuplicates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.do("POST", "/v1/notices", one).is(201)
	if loc := a.header.Get("Location"); loc != "/v1/notices/app1:orders:paid:1" {
		t.Errorf("Location %q", loc)
	}
	m := a.json()
	for name, want := range map[string]any{"key": "app1:orders:paid:1", "route": "orders", "state": "scheduled", "attempt": 1.0,
		"max_attempts": 10.0, "url": "https://shop.example/hook", "content_type": "application/json", "created": true} {
		if m[name] != want {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	due, err := time.Parse("2006-01-02T15:04:05.000Z", m["due"].(string))
	if err != nil || time.Until(due) > 16*time.Second || time.Until(due) < -time.Minute {
		t.Errorf("due %v, %v", m["due"], err)
	}
	b.do("POST", "/v1/notices", one).is(200).says(`"created":false`)
	// A repeated call differs in its delay only by the clock; the content decides.
	b.do("POST", "/v1/notices", strings.Replace(one, "15s", "20s", 1)).is(200)
	other := strings.Replace(strings.Replace(one, "true", "false", 1), "/hook", "/other", 1)
	c := b.do("POST", "/v1/notices", other).is(409).says("url, body").json()
	if fmt.Sprint(c["differs"]) != "[url body]" || c["state"] != "scheduled" {
		t.Errorf("the conflict is %v", c)
	}
	b.do("POST", "/v1/notices", strings.Replace(other, "{", `{"on_duplicate":"keep",`, 1)).is(200).says(`{"paid":true}`)
	b.do("POST", "/v1/notices", strings.Replace(other, "{", `{"on_duplicate":"replace",`, 1)).is(201).says(`{"paid":false}`, `"replaced":true`)
}

func TestGETWithBodyThatIsNoQueryIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	call := func(more string) string {
		return `{"key":"app1:orders:get:1","url":"https://shop.example/hook","delay":"1h","method":"GET",` + more + `}`
	}
	const form = `"content_type":"application/x-www-form-urlencoded","body_text":`
	for more, says := range map[string]string{`"body":[1]`: "body.body", form + `"a=%zz"`: "write %25", form + `"a;b"`: "write %3B",
		form + `"a\nb"`: "control character", `"body_text":"<x/>","content_type":"text/xml"`: "body.content_type"} {
		b.do("POST", "/v1/notices", call(more)).is(422).says(says)
	}
	b.do("POST", "/v1/notices", call(form+`"b=张&a=1"`)).is(201)
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:get:1","delay":"1h","method":"GET","body":[1]}`).is(201) // a list has no query
}

func TestRepeatedCallWithAnotherDueIsConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const path = "/v1/notices/app1:orders:paid:1"
	call := func(due string) string { return strings.Replace(one, `"delay":"15s"`, `"due":"`+due+`"`, 1) }
	first := call("2031-01-01T00:00:00.001Z")
	b.do("POST", "/v1/notices", first).is(201)
	b.do("POST", "/v1/notices", first).is(200)
	b.do("POST", "/v1/notices", call("2031-01-01T01:00:00.0005+01:00")).is(200) // rounded up
	other := b.do("POST", "/v1/notices", call("2031-01-01T00:00:00.002Z")).is(409).says("2031-01-01T00:00:00.001Z", "PATCH").json()
	if fmt.Sprint(other["differs"]) != "[due]" || other["state"] != "scheduled" {
		t.Errorf("the conflict is %v", other)
	}
	b.do("POST", "/v1/notices", strings.Replace(call("2032-01-01T00:00:00Z"), "true", "false", 1)).is(409).says(`"differs":["body","due"]`)
	b.do("POST", "/v1/notices/batch", "["+first+","+call("2032-01-01T00:00:00Z")+"]").is(207).says(`"differs":["due"]`)
	b.do("POST", "/v1/notices", strings.Replace(call("2032-01-01T00:00:00Z"), "{", `{"on_duplicate":"keep",`, 1)).is(200)
	b.do("POST", "/v1/notices", one).is(200) // a delay is not compared
	b.do("POST", "/v1/notices", strings.Replace(one, `"delay":"15s",`, "", 1)).is(200)

	for _, move := range []struct{ method, path, body string }{{"PATCH", path, `{"due":"2033-01-01T00:00:00Z"}`},
		{"PATCH", path, `{"url":"https://new.example/","delay":"9h"}`}, {"POST", path + "/fire", ""}} {
		b.do(move.method, move.path, move.body).is(200)
		b.do("POST", "/v1/notices", first).is(200).says(`"created":false`)
		b.do("POST", "/v1/notices", call("2033-01-01T00:00:00Z")).is(409).says(`"differs":["due"]`)
	}
	b.do("DELETE", path, "").is(200)
	b.do("POST", "/v1/notices", first).is(200).says(`"state":"cancelled"`)
	b.do("POST", "/v1/notices", call("2033-01-01T00:00:00Z")).is(409).says(`"state":"cancelled"`, `"differs":["due"]`)

	past := strings.Replace(call("2020-01-01T00:00:00Z"), "paid:1", "paid:2", 1)
	b.do("POST", "/v1/notices", past).is(201)
	b.do("POST", "/v1/notices", past).is(200)
	b.do("POST", "/v1/notices", strings.Replace(past, "2020", "2021", 1)).is(200) // before the creation as well
	b.do("POST", "/v1/notices", strings.Replace(past, "2020", "2033", 1)).is(409).says(`"differs":["due"]`)
}

func TestURLIsCanonicalWhereverItEnters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const given, canonical = "https://shop.example/a%2Fb|c?d=2026-11-28 10:00&n=张三&p=100%", "https://shop.example/a%2Fb%7Cc?d=2026-11-28%2010:00&n=%E5%BC%A0%E4%B8%89&p=100%25"
	const shown = `"url":"` + canonical + `"`
	call := func(url string) string { return strings.Replace(one, "https://shop.example/hook", url, 1) }
	b.do("POST", "/v1/notices", call(given)).is(201).says(shown)
	b.do("POST", "/v1/notices", call(given)).is(200).says(shown)
	b.do("POST", "/v1/notices", call(canonical)).is(200).says(shown)
	b.do("POST", "/v1/notices/batch", "["+call(given)+"]").is(200).says(shown)
	b.do("PATCH", "/v1/notices/app1:orders:paid:1", `{"url":"https://shop.example/{x}"}`).is(200).says(`"url":"https://shop.example/%7Bx%7D"`)
	b.do("POST", "/v1/notices", call(given)).is(200).says(`"url":"https://shop.example/%7Bx%7D"`)
	id := b.do("POST", "/v1/redirects", `{"from":"https://shop.example/{x}","to":"https://new.example/张"}`).is(201).
		says(`"from":"https://shop.example/%7Bx%7D"`, `"to":"https://new.example/%E5%BC%A0"`).id()
	testkit.Until(t, "the redirect is done", func() bool {
		return strings.Contains(b.do("GET", "/v1/redirects/"+id, "").is(200).raw, `"state":"done"`)
	})
	b.do("GET", "/v1/notices/app1:orders:paid:1", "").is(200).says(`"url":"https://new.example/%E5%BC%A0"`)

	for url, remedy := range map[string]string{"https://shop.example/x ": "white space before or after it; remove it",
		"https://shop.example:70000/": "want a number from 1 to 65535", "https://shop.example/100%": "write %25 for the character %",
		"https://shop.example/" + strings.Repeat("张", 230): "at most 2048 are allowed"} {
		if a := b.do("POST", "/v1/notices", call(url)).is(422).says("body.url", remedy); strings.Contains(a.raw, "is missing") {
			t.Errorf("%s: two faults: %s", url, a.raw)
		}
		b.do("POST", "/v1/notices/batch", "["+call(url)+"]").is(207).says("body[0].url", remedy)
		b.do("PATCH", "/v1/notices/app1:orders:paid:1", `{"url":"`+url+`"}`).is(422).says("body.url", remedy)
		b.do("POST", "/v1/redirects", `{"host":"shop.example","to":"`+url+`"}`).is(422).says("body.to", remedy)
	}
}

// A call that is repeated after its notice was trimmed makes no second one.
func TestScheduleAfterTheNoticeWasTrimmed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := strings.Replace(one, `"delay":"15s",`, "", 1)
	id := b.do("POST", "/v1/notices", now).is(201).id()
	b.engine.Move("app1:orders:paid:1", notice.Delivered, "")
	b.engine.Trim("app1:orders:paid:1")
	b.do("GET", "/v1/notices/app1:orders:paid:1", "").is(404)

	want := `{"key":"app1:orders:paid:1","id":"` + id + `","state":"settled","created":false,"replaced":false}`
	if got := strings.TrimSpace(b.do("POST", "/v1/notices", now).is(200).raw); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	other := strings.Replace(now, "true", "false", 1)
	if c := b.do("POST", "/v1/notices", other).is(409).says("settled recently").json(); c["state"] != "settled" || c["differs"] != nil {
		t.Errorf("the conflict is %v", c)
	}
	b.do("POST", "/v1/notices", strings.Replace(other, "{", `{"on_duplicate":"keep",`, 1)).is(200).says(`"state":"settled"`)
	b.do("POST", "/v1/notices/batch", "["+now+"]").is(200).says(`"notice":{"key":"app1:orders:paid:1","id":"` + id + `","state":"settled"}`)
	b.do("POST", "/v1/notices/batch", "["+other+"]").is(207).says(`"status":409`)
	b.do("POST", "/v1/notices", strings.Replace(other, "{", `{"on_duplicate":"replace",`, 1)).is(201).says(`"created":true`)
}

// A notice names whom it is for: kept, read back, part of what makes two calls the same.
func TestAudienceIsPartOfTheContent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const key = "app1:orders:paid:1"
	one := `{"key":"` + key + `","url":"https://platform.example/hook","audience":"m17"}`
	b.do("POST", "/v1/notices", one).is(201).says(`"audience":"m17"`)
	b.do("POST", "/v1/notices", one).is(200)
	b.do("GET", "/v1/notices/"+key, "").is(200).says(`"audience":"m17"`)
	c := b.do("POST", "/v1/notices", strings.Replace(one, "m17", "m18", 1)).is(409).json()
	if fmt.Sprint(c["differs"]) != "[audience]" {
		t.Errorf("the conflict is %v", c)
	}
	b.do("POST", "/v1/notices/batch", strings.Replace(one, "paid:1", "paid:2", 1)).is(201).says(`"audience":"m17"`)
	for _, bad := range []string{`"m 17"`, `"m:17"`, `17`, `"` + strings.Repeat("m", 129) + `"`} {
		b.do("POST", "/v1/notices", strings.Replace(one, `"m17"`, bad, 1)).is(422).says(`"location":"body.audience"`)
	}
}

// A notice for a private address was taken, and dead a moment later.
func TestPrivateAddressesAreRefusedWhenScheduled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := func(id, url string) string {
		return fmt.Sprintf(`{"key":"app1:orders:paid:%s","delay":"1h","url":%q}`, id, url)
	}
	remedy := "NOTIFIER_ROUTE_ORDERS_ALLOW=10.0.0.1/32 would allow it"
	b.do("POST", "/v1/notices", one("1", "http://10.0.0.1/hook")).is(422).says(`"location":"body.url"`, "10.0.0.1 is private", remedy)
	for _, url := range []string{"http://10.0.0.1./", "http://user:hunter2@10.0.0.1:8080/x?token=hunter2", "http://[::ffff:10.0.0.1]/",
		"http://\uff11\uff10.0.0.1/",
		"http://localhost:6379/", "http://a.LOCALHOST./", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/",
		"http://[::1]/",
		"http://[fe80::1%25eth0]/", "http://169.254.169.254/latest", "http://[64:ff9b::7f00:1]/"} {
		text := b.do("POST", "/v1/notices", one("1", url)).is(422).says(`"location":"body.url"`, "may not be called").raw
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s: the answer shows a password: %s", url, text)
		}
	}
	b.do("GET", "/v1/notices/app1:orders:paid:1", "").is(404)
	// Of a batch that item alone.
	b.do("POST", "/v1/notices/batch", one("2", "http://10.0.0.1/")+"\n"+one("3", "https://shop.example/")).is(207).
		says(`"location":"body[0].url"`, remedy, `"status":422`, `"status":201`)
	b.do("GET", "/v1/notices/app1:orders:paid:2", "").is(404)
	b.do("GET", "/v1/notices/app1:orders:paid:3", "").is(200)
}

// A url of a host that gets the route's headers, by another scheme or port, was taken.
func TestSchemesAndPortsWithoutHeadersAreRefused(t *testing.T) {
	t.Parallel()
	to, err := route.ParseOrigins("shop.example,*.shop.example:*")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *api.Options) {
		var list []*route.Route
		for _, r := range o.Routes.All() {
			c := *r
			if c.Name == "orders" {
				c.Headers, c.HeadersTo = []notice.Header{{Name: "Authorization", Value: "hunter2"}}, to
			}
			list = append(list, &c)
		}
		if o.Routes, err = route.NewTable(list); err != nil {
			t.Fatal(err)
		}
		o.Engine = enginetest.New(t, o.Routes)
	})
	one := func(id, url string) string {
		return fmt.Sprintf(`{"key":"app1:orders:paid:%s","delay":"1h","url":%q}`, id, url)
	}
	const only, remedy = "sends its headers to this host by https://shop.example only", "NOTIFIER_ROUTE_ORDERS_HEADERS_TO="
	for _, url := range []string{"http://shop.example/hook", "HTTP://u:hunter2@SHOP.example.:443/?q=hunter2", "https://shop.example:8443/"} {
		text := b.do("POST", "/v1/notices", one("1", url)).is(422).says(`"location":"body.url"`, only, remedy).raw
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s: the answer shows a secret: %s", url, text)
		}
	}
	b.do("GET", "/v1/notices/app1:orders:paid:1", "").is(404)
	b.do("POST", "/v1/notices", one("1", "http://a.shop.example:8443/")).is(422).says("by https://a.shop.example with any port only")
	// Of a batch, and of what import and restore bring, that item alone.
	b.do("POST", "/v1/notices/batch", one("2", "http://shop.example/")+"\n"+one("3", "https://shop.example:443/")+"\n"+one("4",
		"http://other.example:8080/")).is(207).
		says(`"location":"body[0].url"`, only, `"status":422`, `"status":201`)
	b.do("GET", "/v1/notices/app1:orders:paid:2", "").is(404)
	for _, id := range []string{"3", "4"} {
		b.do("GET", "/v1/notices/app1:orders:paid:"+id, "").is(200)
	}
	b.do("POST", "/v1/notices/restore",
		`[{"key":"app1:orders:paid:5","id":"x","state":"scheduled","due":"2026-12-01T00:00:00Z","url":"http://shop.example/"}]`).
		is(207).says(`.url"`, only, `"status":422`)
}

// A delay of 5000, by which its producer meant milliseconds, was taken without a word.
func TestADelayWithoutAUnitIsAnsweredWithWhatItWasReadAs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := func(id, delay string) string {
		return fmt.Sprintf(`{"key":"app1:jobs:t:%s","delay":%s}`, id, delay)
	}
	b.do("POST", "/v1/notices", one("1", `5000`)).is(201).says(`,"delay":"1h23m20s"}`)
	b.do("POST", "/v1/notices", one("2", `"5000"`)).is(201).says(`,"delay":"1h23m20s"}`)
	b.do("POST", "/v1/notices", one("3", `0.25`)).is(201).says(`,"delay":"250ms"}`)
	b.do("POST", "/v1/notices/batch", "["+one("4", `5000`)+","+one("5", `"5s"`)+
		"]").is(201).says(`"replaced":false,"delay":"1h23m20s","notice":`,
		`"replaced":false,"notice":`)
	b.do("PATCH", "/v1/notices/app1:jobs:t:1", `{"delay":7000}`).is(200).says(`,"delay":"1h56m40s"}`)
	for id, with := range map[string]string{"6": `"5s"`, "7": `"1h23m20s"`} {
		if raw := b.do("POST", "/v1/notices", one(id, with)).is(201).raw; strings.Contains(raw, `"delay"`) {
			t.Errorf("%s: %s", with, raw)
		}
	}
}

func TestBodyIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for given, want := range map[string]string{
		`"body": {"b" : 1,  "a":[1.0, 1e2 ,"\u00e9<&>"],"b":2} `: `{"b" : 1,  "a":[1.0, 1e2 ,"\u00e9<&>"],"b":2}`,
		`"body":null`:                          `null`,
		`"body":12345678901234567890.10`:       `12345678901234567890.10`,
		`"body":"text"`:                        `"text"`,
		`"body_text":"a\nb\u0000\ud83d\ude00"`: "a\nb\x00😀",
		`"body_base64":"/wAB"`:                 "\xff\x00\x01",
		`"body":"\ud800"`:                      `"\ud800"`,
		`"body_text":""`:                       "",
	} {
		b.engine.Clear()
		b.do("POST", "/v1/notices", `{"key":"app2:a:b:c",`+given+`}`).is(201)
		f, err := b.engine.Find(t.Context(), "app2:a:b:c")
		if err != nil || string(f.Body) != want {
			t.Errorf("%s was kept as %q, %v", given, f.Body, err)
		}
		if got := b.do("GET", "/v1/notices/app2:a:b:c", "").is(200); f.InlineJSON() && !strings.Contains(got.raw, `"body":`+want+"}") {
			t.Errorf("%s reads back as %s", given, got.raw)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, c := range []struct {
		given string
		want  time.Duration
	}{
		{`"delay":"1h30m"`, 90 * time.Minute}, {`"delay":2.5`, 2500 * time.Millisecond}, {`"delay":"90"`, 90 * time.Second},
		{`"delay":0`, 0}, {`"delay":0.0004`, time.Millisecond}, {`"retry":[]`, 0},
	} {
		key := fmt.Sprintf("app2:a:b:%d", i)
		b.do("POST", "/v1/notices", fmt.Sprintf(`{"key":%q,%s}`, key, c.given)).is(201)
		f, _ := b.engine.Find(t.Context(), key)
		if got := f.Due.Sub(f.Made.Time().Truncate(time.Millisecond)); got < c.want || got > c.want+5*time.Second {
			t.Errorf("%s is due after %s", c.given, got)
		}
	}
	for due, want := range map[string]string{
		"2030-01-01T00:00:00.0001Z": "2030-01-01T00:00:00.001Z", "2030-01-01T02:00:00+02:00": "2030-01-01T00:00:00.000Z",
	} {
		b.do("POST", "/v1/notices", fmt.Sprintf(`{"key":"app2:d:d:d","due":%q,"on_duplicate":"replace"}`, due)).is(201).says(`"due":"` + want +
			`"`)
	}
	for _, past := range []string{"2001-01-01T00:00:00Z", "1969-12-31T00:00:00Z", "0001-01-01T00:00:00Z"} {
		b.do("POST", "/v1/notices", fmt.Sprintf(`{"key":"app2:d:d:d","due":%q,"on_duplicate":"replace"}`, past)).is(201)
		b.do("POST", "/v1/notices", `{"key":"app2:d:d:e","delay":"1h","on_duplicate":"replace"}`).is(201)
		b.do("PATCH", "/v1/notices/app2:d:d:e", fmt.Sprintf(`{"due":%q}`, past)).is(200)
		for _, key := range []string{"app2:d:d:d", "app2:d:d:e"} {
			if f, err := b.engine.Find(t.Context(), key); err != nil || f.Due.Sub(f.Made.Time()).Abs() > time.Minute {
				t.Errorf("due %s is due %s, made %s, %v; want now", past, f.Due, f.Made.Time(), err)
			}
		}
	}
}

func TestScheduleRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for body, want := range map[string]string{
		``:                     "400 empty",
		`{`:                    "400 at byte",
		`[]`:                   "422 want a JSON object",
		`{"a":1} x`:            "400 at byte",
		"{\"k\":\"\xff\"}":     "400 UTF-8",
		`{}`:                   "422 body.key: is missing",
		`{"key":7}`:            "422 body.key: want a string",
		`{"key":"a"}`:          "422 has 1 segment,",
		`{"KEY":"app2:a:b:c"}`: "422 body.KEY: no such field",
		`{"key":"app2:a:b:c","key":"app2:a:b:d"}`: "422 occurs twice",
		`{"key":"app3:a:b:c"}`: "422 app1:orders, app1:fixed, " +
			"app1:jobs, app2",
		`{"key":"app1:orders:b:c"}`:                                                                   "422 body.url: is missing",
		`{"key":"app1:fixed:b:c","url":"http://h/"}`:                                                  "422 bring no url",
		`{"key":"app1:jobs:b:c","url":"http://h/"}`:                                                   "422 bring no url",
		`{"key":"app2:a:b:c","delay":"1s","due":"2030-01-01T00:00:00Z"}`:                              "422 both given",
		`{"key":"app2:a:b:c","delay":-1}`:                                                             "422 body.delay",
		`{"key":"app2:a:b:c","delay":1e400}`:                                                          "422 body.delay",
		`{"key":"app2:a:b:c","delay":"soon"}`:                                                         "422 not a duration",
		`{"key":"app2:a:b:c","delay":null}`:                                                           "422 body.delay",
		`{"key":"app2:a:b:c","delay":999999999999}`:                                                   "422 body.delay",
		`{"key":"app2:a:b:c","due":"tomorrow"}`:                                                       "422 body.due",
		`{"key":"app2:a:b:c","due":"2999-01-01T00:00:00Z"}`:                                           "422 ahead",
		`{"key":"app2:a:b:c","due":5}`:                                                                "422 want a string",
		`{"key":"app2:a:b:c","body":1,"body_text":"1"}`:                                               "422 give one",
		`{"key":"app2:a:b:c","body_text":"\ud800"}`:                                                   "422 surrogate",
		`{"key":"app2:a:b:c","body_base64":"%"}`:                                                      "422 base64",
		`{"key":"app2:a:b:c","content_type":"a\nb"}`:                                                  "422 body.content_type",
		`{"key":"app1:orders:b:c","url":"file:///etc/passwd"}`:                                        "422 body.url",
		`{"key":"app2:a:b:c","headers":{"Host":"x"}}`:                                                 "422 reserved",
		`{"key":"app2:a:b:c","headers":{"a":"b\r\nc: d"}}`:                                            "422 control character",
		`{"key":"app2:a:b:c","headers":{"a":"b","A":"c"}}`:                                            "422 occurs twice",
		`{"key":"app2:a:b:c","headers":[]}`:                                                           "422 body.headers",
		`{"key":"app2:a:b:c","method":"DELETE"}`:                                                      "422 body.method",
		`{"key":"app2:a:b:c","retry":"often"}`:                                                        "422 body.retry",
		`{"key":"app2:a:b:c","retry":["0s"]}`:                                                         "422 body.retry",
		`{"key":"app2:a:b:c","retry":["1s",true]}`:                                                    "422 body.retry[1]",
		`{"key":"app2:a:b:c","on_duplicate":"maybe"}`:                                                 "422 body.on_duplicate",
		`{"key":"app2:a:b:c","body":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`: "400",
		`{"key":"app2:a:b:c","body":"` + strings.Repeat("x", 256<<10) + `"}`:                          "413 body",
		`{"key":"app2:a:b:c","body":"` + strings.Repeat("x", 1<<20) + `"}`:                            "413",
	} {
		status, says, _ := strings.Cut(want, " ")
		n := 0
		_, _ = fmt.Sscan(status, &n)
		if a := b.do("POST", "/v1/notices", body); a.status != n {
			t.Errorf("%.60q is answered %d %.300s, want %s", body, a.status, a.raw, status)
		} else {
			a.is(n).says(says)
		}
	}
	if n := b.engine.Changes(); n != 0 {
		t.Errorf("%d changes by refused requests", n)
	}
	p := b.do("POST", "/v1/notices", `{"key":"app2:a:b:c","delay":"x","method":"y","bogus":1}`).is(422).json()
	if n := len(p["errors"].([]any)); n != 3 {
		t.Errorf("%d errors are listed, want all 3: %v", n, p)
	}
}

func TestSecretsOfARequestAreNotRepeated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, body := range []string{
		`{"key":"app1:orders:b:c","url":"ftp://user:hunter2@h/"}`,
		`{"key":"app1:orders:b:c","url":"https://user:hunter2@h/"}`,
		`{"key":"app2:a:b:c","headers":{"authorization":"hunter2\n"}}`,
		`{"key":"app2:a:b:d","headers":{"authorization":"hunter2"}}`,
	} {
		if a := b.do("POST", "/v1/notices", body); strings.Contains(a.raw, "hunter2") {
			t.Errorf("%s is answered with its secret: %s", body, a.raw)
		}
	}
}

func TestHeadersHaveNoOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:c","headers":{"x-a":"1","X-b":"2"}}`).is(201)
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:c","headers":{"X-b":"2","x-a":"1"}}`).is(200)
}

func TestLadderForms(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for given, want := range map[string]string{`["1s",2,"3m"]`: "1s,2s,3m", `"1s,2s"`: "1s,2s", `"none"`: "none", `[]`: "none",
		`"wechat"`: notice.WeChatLadder.String()} {
		b.engine.Clear()
		b.do("POST", "/v1/notices", `{"key":"app2:a:b:c","retry":`+given+`}`).is(201)
		f, _ := b.engine.Find(t.Context(), "app2:a:b:c")
		if f.Ladder == nil || f.Ladder.String() != want {
			t.Errorf("%s was read as %v", given, f.Ladder)
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var all []map[string]any
	read := func(a answer) {
		t.Helper()
		all = nil
		if err := json.Unmarshal([]byte(a.raw), &all); err != nil {
			t.Fatalf("%v in %s", err, a.raw)
		}
	}
	array := `[{"key":"app2:a:b:1","body":1}, {"key":"app2:a:b:2","body":[1, 2]}]`
	read(b.do("POST", "/v1/notices/batch", array).is(201))
	if len(all) != 2 || all[0]["key"] != "app2:a:b:1" || all[0]["status"] != 201.0 ||
		all[1]["notice"].(map[string]any)["state"] != "scheduled" {
		t.Errorf("%v", all)
	}
	read(b.do("POST", "/v1/notices/batch", array).is(200))
	read(b.do("POST", "/v1/notices/batch",
		`[{"key":"app2:a:b:3"},{"key":"app2:a:b:1","body":2},{"key":"bad"},7,{"key":"app2:a:b:3"}]`).is(207))
	var got []any
	for _, r := range all {
		got = append(got, r["status"])
	}
	if fmt.Sprint(got) != "[201 409 422 422 200]" {
		t.Errorf("statuses %v", got)
	}
	if f, _ := b.engine.Find(t.Context(), "app2:a:b:2"); string(f.Body) != "[1, 2]" {
		t.Errorf("body %q", f.Body)
	}
	lines := b.do("POST", "/v1/notices/batch", "{\"key\":\"app2:l:b:1\"}\n\n{oops}\r\n{\"key\":\"app2:l:b:2\"}", "Content-Type",
		"application/x-ndjson").is(207)
	split := strings.Split(strings.TrimSpace(lines.raw), "\n")
	if lines.header.Get("Content-Type") != "application/x-ndjson" || len(split) != 3 || !strings.Contains(split[1], `"status":400`) {
		t.Errorf("%s: %q", lines.header.Get("Content-Type"), split)
	}
}

func TestBatchLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	line := func(n int) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, "{\"key\":\"app2:n:n:%d\"}\n", i)
		}
		return s.String()
	}
	b.do("POST", "/v1/notices/batch", line(1001)).is(422).says("more than 1000")
	b.do("POST", "/v1/notices/batch", "["+strings.ReplaceAll(strings.TrimSpace(line(1001)), "\n", ",")+"]").is(422).says("more than 1000")
	for _, empty := range []string{"", " \n", "[]"} {
		b.do("POST", "/v1/notices/batch", empty).is(422).says("holds no notice")
	}
	b.do("POST", "/v1/notices/batch", "[{]").is(400)
	b.do("POST", "/v1/notices/batch", strings.Repeat(" ", 33<<20)).is(413)
	if n := b.engine.Changes(); n != 0 {
		t.Errorf("%d changes by refused batches", n)
	}
	big := `{"key":"app2:n:n:big","body":"` + strings.Repeat("x", 300<<10) + `"}`
	b.do("POST", "/v1/notices/batch", big+"\n"+`{"key":"app2:n:n:1"}`).is(207).says(`"status":413`, `"status":201`)
	b.do("POST", "/v1/notices/batch", strings.Replace(line(1000), "n:n", "m:m", -1)).is(201)
}

func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for err, want := range map[error]int{wire.ErrUnavailable: 503, wire.ErrLogin: 503, wire.ErrRights: 503, fleet.ErrForeign: 503,
		wire.ErrFull:      507,
		fmt.Errorf("bug"): 500, fmt.Errorf("x: %w", wire.ErrUnavailable): 503} {
		b.engine.Fail(err)
		for _, c := range [][3]string{{"POST", "/v1/notices", one}, {"GET", "/v1/notices/app2:a:b:c"}, {"DELETE", "/v1/notices/app2:a:b:c"},
			{"GET", "/v1/notices"}, {"GET", "/v1/stats"}, {"GET", "/v1/instances"}, {"POST", "/v1/routes/orders/pause"},
			{"POST", "/v1/routes/orders/redrive"}} {
			a := b.do(c[0], c[1], c[2]).is(want)
			if want != 500 && a.header.Get("Retry-After") == "" {
				t.Errorf("%v is answered %d without Retry-After", c, want)
			}
		}
		if a := b.do("POST", "/v1/notices/batch", `{"key":"app2:a:b:c"}`); a.status != want && want != 500 {
			t.Errorf("a batch is answered %d, want %d", a.status, want)
		}
	}
}

// What is stored and not confirmed has a type of its own: the call is to be made
// again, of a batch these items.
func TestWhatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, err := range []error{wire.ErrUnconfirmed, wire.ErrNotSynced} {
		b.engine.Fail(fmt.Errorf("schedule: %w: 0 of 1 replicas had it after 1s", err))
		for _, c := range [][3]string{{"POST", "/v1/notices", one}, {"POST", "/v1/notices/batch", `{"key":"app2:a:b:c"}`},
			{"PATCH", "/v1/notices/app2:a:b:c", `{"delay":"5s"}`}, {"DELETE", "/v1/notices/app2:a:b:c"}, {"POST", "/v1/notices/app2:a:b:c/fire"},
			{"POST", "/v1/notices/app2:a:b:c/redrive"}, {"POST", "/v1/routes/orders/redrive"}} {
			if a := b.do(c[0], c[1], c[2]).is(503).says(`"type":"unconfirmed"`, "epeat the call"); a.header.Get("Retry-After") == "" {
				t.Errorf("%v: without Retry-After", c)
			}
		}
		a := b.do("POST", "/v1/notices/batch", `{"key":"app2:a:b:c"}`+"\n"+
			`{"key":"wrong"}`).is(207).says(`"status":503,"problem":{"type":"unconfirmed"`, `"status":422`)
		if a.header.Get("Retry-After") == "" {
			t.Error("a batch of which a part is to be repeated says nothing of when")
		}
	}
}

// What an operator must correct is not said to be a matter of waiting.
func TestFaultsOfRedisThatWaitingDoesNotEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for err, says := range map[error][]string{
		wire.ErrLogin:   {"user or password", "notifier doctor"},
		wire.ErrRights:  {"a right", "notifier doctor"},
		store.ErrLayout: {"written with other settings", "/readyz and the log"},
		wire.ClockError{Says: time.Unix(0, 0).UTC()}: {"Redis's clock says 1970-01-01T00:00:00Z", "must correct the clock"},
	} {
		b.engine.Fail(fmt.Errorf("schedule: %w", err))
		if a := b.do("POST", "/v1/notices", one).is(503).says(says...); strings.Contains(a.raw, "unreachable") {
			t.Errorf("%v is said to be unreachable: %s", err, a.raw)
		}
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) { o.Memory = 4 << 20 }) // of which a client, and so a batch, may have a quarter
	b.do("POST", "/v1/notices", one[:20]).is(400).says("not JSON")
	for _, c := range []struct {
		body          io.Reader
		status        int
		single, batch string
	}{
		{iotest.ErrReader(io.ErrUnexpectedEOF), 400, "ended before its Content-Length", "ended before its Content-Length"},
		{iotest.ErrReader(errors.New("reset")), 400, "could not be read to its end", "could not be read to its end"},
		{blanks{}, 413, "the request is larger than", "the batch is larger than"},
	} {
		for path, says := range map[string]string{"/v1/notices": c.single, "/v1/notices/batch": c.batch} {
			r := httptest.NewRequest("POST", path, c.body)
			r.Host, r.ContentLength = "localhost", -1
			b.serve(r).is(c.status).says(says)
		}
	}
}

// blanks is a body without an end.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }
