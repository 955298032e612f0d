package api_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// handed stands for a claimed notice that a consumer has.
const handed = notice.State("handed")

// Each call that changes a notice has an answer for each state.
func TestChangesByState(t *testing.T) {
	t.Parallel()
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
		{"POST", "/ack", `{"attempt":1,"id":"ID"}`, map[notice.State]int{notice.Scheduled: 409, notice.Claimed: 409, handed: 200,
			notice.Delivered: 200,
			notice.Cancelled: 409, notice.Dead: 409}},
		{"POST", "/nack", `{"attempt":1,"id":"ID","permanent":true,"response":"no"}`, map[notice.State]int{notice.Scheduled: 409,
			notice.Claimed: 409,
			handed:         200, notice.Delivered: 409, notice.Cancelled: 409}},
		{"POST", "/defer", `{"attempt":1,"id":"ID","after":"30s"}`, map[notice.State]int{notice.Scheduled: 409, notice.Claimed: 409, handed: 200,
			notice.Delivered: 409}},
	}
	b := newBench(t)
	for _, c := range calls {
		for state, want := range c.want {
			b.engine.Clear()
			id := b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(201).id()
			unchanged := state == notice.Cancelled || state == notice.Delivered // where it is no conflict
			switch state {
			case notice.Scheduled:
			case handed:
				b.engine.Hand("app1:jobs:t:1")
				state = notice.Claimed
			case notice.Dead:
				b.engine.Move("app1:jobs:t:1", state, notice.ReasonTimeout)
			default:
				b.engine.Move("app1:jobs:t:1", state, "")
			}
			a := b.do(c.method, "/v1/notices/app1:jobs:t:1"+c.path, strings.ReplaceAll(c.body, "ID", id))
			if a.status != want {
				t.Errorf("%s %s of a notice that is %s: %d, want %d: %s", c.method, c.path, state, a.status, want, a.raw)
			}
			m := a.json()
			if a.status == 409 && m["state"] != string(state) || a.status == 200 && (m["before"] != string(state) ||
				m["changed"] == unchanged) {
				t.Errorf("%s %s of a notice that is %s: %v", c.method, c.path, state, m)
			}
		}
		b.engine.Clear()
		b.do(c.method, "/v1/notices/app1:jobs:t:1"+c.path, strings.ReplaceAll(c.body, "ID", "msg_1")).is(404).says("app1:jobs:t:1")
	}
}

func TestReschedule(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:c"}`).is(201)
	b.do("PATCH", "/v1/notices/app2:a:b:c", `{"due":"2031-01-01T00:00:00Z"}`).is(200).says(`"due":"2031-01-01T00:00:00.000Z"`)
	for _, bad := range []string{`{}`, `{"delay":"1s","due":"2031-01-01T00:00:00Z"}`, `{"delay":"x"}`, `{"state":"dead"}`, `[]`} {
		b.do("PATCH", "/v1/notices/app2:a:b:c", bad).is(422)
	}
	b.do("PATCH", "/v1/notices/app2:a:b:c", ``).is(400)
}

func TestReports(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const path = "/v1/notices/app1:jobs:t:1/"
	id := b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(201).id()
	with := func(members string) string { return `{"id":"` + id + `",` + members + `}` }
	b.engine.Hand("app1:jobs:t:1")
	before := b.engine.Changes()
	for _, bad := range []string{`{}`, with(`"attempt":0`), with(`"attempt":"1"`), with(`"attempt":1.5`), with(`"attempt":1,"after":"1s"`),
		with(`"attempt":99999999999`), `{"attempt":1,"id":""}`, `{"attempt":1,"id":7}`, `{"attempt":1,"id":"` + strings.Repeat("x", 101) + `"}`} {
		b.do("POST", path+"ack", bad).is(422)
	}
	for _, verb := range []string{"ack", "nack", "defer"} {
		b.do("POST", path+verb, `{"attempt":1}`).is(422).says("body.id", "is missing", "the entry", "NOTICE_ID")
		b.do("POST", path+verb, `{"attempt":1,"id":"msg_another"}`).is(409).says("msg_another", id, `"state":"claimed"`)
	}
	b.do("POST", path+"nack", with(`"attempt":1,"permanent":"yes"`)).is(422)
	b.do("POST", path+"ack", with(`"attempt":2`)).is(409)
	if b.engine.Changes() != before {
		t.Error("a report that was refused changed something")
	}
	failed := with(`"attempt":1,"response":"out of stock"`)
	b.do("POST", path+"nack", failed).is(200).says("out of stock", `"reason":"rejected"`, `"attempt":2`, `"changed":true`)
	b.do("POST", path+"nack", failed).is(200).says(`"state":"scheduled"`, `"attempt":2`, `"changed":false`)
	b.do("POST", path+"ack", with(`"attempt":1`)).is(409)
	b.engine.Hand("app1:jobs:t:1")
	b.do("POST", path+"defer", with(`"attempt":2,"after":"1h"`)).is(200).says(`"changed":true`)
	b.do("POST", path+"defer", with(`"attempt":2,"after":"1h"`)).is(200).says(`"changed":false`)
	b.engine.Hand("app1:jobs:t:1")
	b.do("POST", path+"ack", with(`"attempt":2`)).is(200).says(`"state":"delivered"`, `"changed":true`)
	b.do("POST", path+"ack", with(`"attempt":2`)).is(200).says(`"state":"delivered"`, `"changed":false`)
}

func TestListPages(t *testing.T) {
	t.Parallel()
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
		"cursor=%21": 400, "a;b": 400, "prefix=%C3%A4": 422,
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
	t.Parallel()
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

// A finalized notice has no coming attempt: one without retries showed attempt 2 of 1.
func TestFinalizedNoticeHasNoComingAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := func(a answer, attempt any, made float64) {
		t.Helper()
		if m := a.is(200).json(); m["attempt"] != attempt || m["attempts_made"] != made || m["max_attempts"] != 1.0 {
			t.Errorf("attempt %v, attempts_made %v, max_attempts %v: want %v, %v, 1", m["attempt"], m["attempts_made"], m["max_attempts"],
				attempt, made)
		}
	}
	for _, state := range []notice.State{notice.Dead, notice.Delivered} {
		key := "app1:orders:paid:" + string(state)
		b.do("POST", "/v1/notices", `{"key":"`+key+`","url":"https://shop.example/","delay":"1h","retry":[]}`).is(201)
		want(b.do("GET", "/v1/notices/"+key, ""), 1.0, 0)
		b.engine.Move(key, state, "")
		want(b.do("GET", "/v1/notices/"+key, ""), nil, 1)
	}
	const other = "app1:orders:paid:cancelled"
	b.do("POST", "/v1/notices", `{"key":"`+other+`","url":"https://shop.example/","delay":"1h","retry":[]}`).is(201)
	want(b.do("DELETE", "/v1/notices/"+other, ""), nil, 0)
}

func TestRoutesAndStats(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do("POST", "/v1/notices", one).is(201)
	b.do("POST", "/v1/routes/orders/pause", "").is(200)
	b.do("GET", "/v1/routes", "").is(200).says(`"summary":"9 retries over 25h13m15s"`, `"paused":true`, `"target":"notice"`, `"ack":"2xx"`,
		`"ack":"report"`, `"ack":"log line"`)
	b.do("GET", "/v1/stats", "").is(200).says(`"route":"orders"`, `"pending":1,"overdue":0`, `"configured":true`, `"outcomes":{"dead":0`,
		`"next_due":"20`)
	b.do("POST", "/v1/notices/app1:orders:paid:1/fire", "").is(200)
	b.do("GET", "/v1/stats", "").is(200).says(`"pending":1,"overdue":1`)
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(201)
	b.engine.Hand("app1:jobs:t:1")
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:2"}`).is(201)
	b.engine.Move("app1:jobs:t:2", notice.Dead, notice.ReasonGone)
	for _, r := range b.do("GET", "/v1/stats", "").is(200).json()["routes"].([]any) {
		n := r.(map[string]any)
		if _, there := n["next_due"]; n["route"] == "jobs" && (n["pending"] != 1.0 || n["overdue"] != 0.0 || n["dead"] != 1.0 || there) {
			t.Errorf("one that a consumer has and a dead one: %v", n)
		}
	}
	b.do("POST", "/v1/routes/orders/resume", `{"x":1}`).is(422)
	b.do("POST", "/v1/routes/orders/resume", "").is(200).says(`"paused":false`)
	b.engine.SetReady(fleet.Readiness{Reasons: []string{"redis is not reached"}})
	b.do("GET", "/healthz", "").is(200)
	if a := b.do("GET", "/readyz", ""); a.status != 503 || !strings.Contains(a.raw, "redis is not reached") {
		t.Errorf("%d %s", a.status, a.raw)
	}
	b.engine.SetReady(fleet.Readiness{Ready: true,
		Degraded: []fleet.Condition{{Reason: "no subscription"}, {Reason: "data lost", Urgent: true}}})
	b.do("GET", "/readyz", "").is(200).says(`{"ready":true,"degraded":true,"reasons":["no subscription","data lost"]}`)
}

// leftover has notices under a prefix that no route has.
type leftover struct{ api.Engine }

func (l leftover) Counts(ctx context.Context) ([]store.Counts, []wire.Lost, error) {
	all, missing, err := l.Engine.Counts(ctx)
	return append(all, store.Counts{Prefix: "app2:gone", Pending: 3}), missing, err
}

func (l leftover) Stats() []fleet.RouteStats {
	return []fleet.RouteStats{{Prefix: "app2", InFlight: 2, Outcomes: map[notice.Outcome]int64{notice.OutcomeHanded: 7},
		LatenessP50: 500 * time.Microsecond,
		LatenessP99: 1500 * time.Microsecond}}
}

func TestStatsShowWhatTheEngineSays(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	b = newBench(t, withClients, func(o *api.Options) { o.Engine = leftover{b.engine} })
	for _, token := range []string{"token-of-all", "token-of-two"} {
		b.as(token).do("GET", "/v1/stats", "").is(200).says(`"route":"app2:gone"`, `"configured":false`, `"pending":3`, `"in_flight":2`,
			`"handed":7`,
			`"lateness_p50_ms":0.5`, `"lateness_p99_ms":1.5`)
	}
	if a := b.as("token-of-one").do("GET", "/v1/stats", "").is(200); strings.Contains(a.raw, "app2") {
		t.Errorf("what is another client's is shown: %s", a.raw)
	}
}
