package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/notice"
)

// Each call that changes a notice has an answer for each state.
func TestChangesByState(t *testing.T) {
	calls := []struct {
		method, path, body string
		want               map[notice.State]int
	}{
		{"DELETE", "", "", map[notice.State]int{notice.Scheduled: 200, notice.Claimed: 200, notice.Delivered: 409, notice.Cancelled: 200,
			notice.Dead: 200}},
		{"PATCH", "", `{"delay":"1m"}`, map[notice.State]int{notice.Scheduled: 200, notice.Claimed: 409, notice.Delivered: 409,
			notice.Cancelled: 409, notice.Dead: 409}},
		{"POST", "/fire", "", map[notice.State]int{notice.Scheduled: 200, notice.Claimed: 409, notice.Delivered: 409, notice.Cancelled: 409,
			notice.Dead: 409}},
		{"POST", "/redrive", "{}", map[notice.State]int{notice.Scheduled: 409, notice.Claimed: 409, notice.Delivered: 409,
			notice.Cancelled: 409, notice.Dead: 200}},
		{"POST", "/ack", `{"attempt":1}`, map[notice.State]int{notice.Scheduled: 409, notice.Claimed: 200, notice.Delivered: 409,
			notice.Cancelled: 409, notice.Dead: 409}},
		{"POST", "/nack", `{"attempt":1,"permanent":true,"response":"no"}`, map[notice.State]int{notice.Scheduled: 409, notice.Claimed: 200}},
		{"POST", "/defer", `{"attempt":1,"after":"30s"}`, map[notice.State]int{notice.Scheduled: 409, notice.Claimed: 200}},
	}
	for _, c := range calls {
		for state, want := range c.want {
			b := newBench(t)
			b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(201)
			if state != notice.Scheduled {
				b.engine.Move("app1:jobs:t:1", state, "")
			}
			a := b.do(c.method, "/v1/notices/app1:jobs:t:1"+c.path, c.body)
			if a.status != want {
				t.Errorf("%s %s of a notice that is %s: %d, want %d: %s", c.method, c.path, state, a.status, want, a.raw)
			}
			m := a.json()
			if a.status == 409 && m["state"] != string(state) || a.status == 200 && (m["before"] != string(state) ||
				m["changed"] != (state != notice.Cancelled)) {
				t.Errorf("%s %s of a notice that is %s: %v", c.method, c.path, state, m)
			}
		}
		b := newBench(t)
		b.do(c.method, "/v1/notices/app1:jobs:t:1"+c.path, c.body).is(404).says("app1:jobs:t:1")
	}
}

func TestReschedule(t *testing.T) {
	b := newBench(t)
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:c"}`).is(201)
	b.do("PATCH", "/v1/notices/app2:a:b:c", `{"due":"2031-01-01T00:00:00Z"}`).is(200).says(`"due":"2031-01-01T00:00:00.000Z"`)
	for _, bad := range []string{`{}`, `{"delay":"1s","due":"2031-01-01T00:00:00Z"}`, `{"delay":"x"}`, `{"state":"dead"}`, `[]`} {
		b.do("PATCH", "/v1/notices/app2:a:b:c", bad).is(422)
	}
	b.do("PATCH", "/v1/notices/app2:a:b:c", ``).is(400)
}

func TestReports(t *testing.T) {
	b := newBench(t)
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(201)
	b.engine.Move("app1:jobs:t:1", notice.Claimed, "")
	for _, bad := range []string{`{}`, `{"attempt":0}`, `{"attempt":"1"}`, `{"attempt":1.5}`, `{"attempt":1,"after":"1s"}`,
		`{"attempt":99999999999}`} {
		b.do("POST", "/v1/notices/app1:jobs:t:1/ack", bad).is(422)
	}
	b.do("POST", "/v1/notices/app1:jobs:t:1/nack", `{"attempt":1,"permanent":"yes"}`).is(422)
	b.do("POST", "/v1/notices/app1:jobs:t:1/ack", `{"attempt":2}`).is(409)
	b.do("POST", "/v1/notices/app1:jobs:t:1/nack", `{"attempt":1,"response":"out of stock"}`).is(200).says("out of stock",
		`"reason":"rejected"`, `"attempt":2`)
}

func TestListPages(t *testing.T) {
	b := newBench(t)
	for i := range 25 {
		b.do("POST", "/v1/notices", fmt.Sprintf(`{"key":"app2:a:b:%02d","body":%d}`, i, i)).is(201)
	}
	seen, cursor, pages := map[string]bool{}, "", 0
	for {
		m := b.do("GET", "/v1/notices?route=other&limit=10&cursor="+url.QueryEscape(cursor), "").is(200).json()
		for _, it := range m["items"].([]any) {
			seen[it.(map[string]any)["key"].(string)] = true
		}
		pages++
		next, more := m["cursor"].(string)
		if !more {
			break
		}
		cursor = next
	}
	if len(seen) != 25 || pages != 3 {
		t.Errorf("%d notices on %d pages", len(seen), pages)
	}
	for query, want := range map[string]int{
		"limit=0": 422, "limit=1001": 422, "limit=x": 422, "state=gone": 422, "reason=bad": 422, "reason=dns": 422, "state=dead&reason=dns": 200,
		"since=yesterday": 422, "since=2031-01-01T00:00:00Z&until=2030-01-01T00:00:00Z": 422, "until=2031-01-01T00:00:00Z": 200,
		"route=none": 404,
		"prefix=a/b": 422, "prefix=app2:a:b:1": 422, "prefix=app2:a:": 200, "prefix=app2": 200, "bogus=1": 422, "limit=1&limit=2": 422,
		"cursor=%21": 422, "a;b": 400, "prefix=%C3%A4": 422,
	} {
		if a := b.do("GET", "/v1/notices?"+query, ""); a.status != want {
			t.Errorf("%s is answered %d, want %d: %s", query, a.status, want, a.raw)
		}
	}
	for prefix, want := range map[string]int{"app2:a:b": 25, "app2:a": 25, "app2:aa": 0, "app": 0} {
		if n := strings.Count(b.do("GET", "/v1/notices?prefix="+prefix, "").raw, `"key"`); n != want {
			t.Errorf("%d keys lie under %s, want %d", n, prefix, want)
		}
	}
}

func TestBulkRedrive(t *testing.T) {
	b := newBench(t)
	for i := range 7 {
		key := fmt.Sprintf("app2:a:b:%d", i)
		b.do("POST", "/v1/notices", `{"key":"`+key+`"}`).is(201)
		reason := notice.ReasonStatus5xx
		if i >= 5 {
			reason = notice.ReasonDNS
		}
		b.engine.Move(key, notice.Dead, reason)
	}
	b.do("POST", "/v1/routes/other/redrive?dry_run=maybe", "").is(422)
	b.do("POST", "/v1/routes/other/redrive?dry_run=true", "").is(200).says(`"matched":7,"redriven":0`)
	b.do("POST", "/v1/routes/other/redrive?reason=dns", "").is(200).says(`"matched":2,"redriven":2`)
	b.do("POST", "/v1/routes/other/redrive", "{}").is(200).says(`"matched":5,"redriven":5`)
	b.do("POST", "/v1/routes/none/redrive", "").is(404)
}

func TestRoutesAndStats(t *testing.T) {
	b := newBench(t)
	b.do("POST", "/v1/notices", one).is(201)
	b.do("POST", "/v1/routes/orders/pause", "").is(200)
	b.do("GET", "/v1/routes", "").is(200).says(`"summary":"9 retries over 25h13m15s"`, `"paused":true`, `"target":"notice"`)
	b.do("GET", "/v1/stats", "").is(200).says(`"route":"orders"`, `"pending":1`, `"lateness_p99_ms":1.5`, `"outcomes":{"dead":0`,
		`"next_due":"20`)
	b.do("POST", "/v1/routes/orders/resume", `{"x":1}`).is(422)
	b.do("POST", "/v1/routes/orders/resume", "").is(200).says(`"paused":false`)
	b.engine.SetReady(api.Readiness{Reasons: []string{"redis is not reached"}})
	b.do("GET", "/healthz", "").is(200)
	if a := b.do("GET", "/readyz", ""); a.status != 503 || !strings.Contains(a.raw, "redis is not reached") {
		t.Errorf("%d %s", a.status, a.raw)
	}
}
