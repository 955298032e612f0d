package dispatch

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

func TestDeadLetterOfHookedRouteHasFacts(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	r := testRoute("orders", 1)
	dies := func(res notice.Result, body string) *store.Death {
		n := &notice.Notice{Key: "app1:a:b:1", Made: notice.MadeAt(at), Due: at.Add(time.Second), Content: notice.Content{Body: []byte(body)}}
		return End(r, &store.Claim{Notice: n}, res, notice.Attempt{At: at.Add(2 * time.Second), Duration: time.Second}, notice.Waits{}).Death
	}
	gone := notice.DeadResult(notice.ReasonGone, "no such shop")
	gone.Status, gone.Host = 410, "shop.example"
	if d := dies(gone, "x"); d != nil {
		t.Errorf("without a hook: %s", d.Facts)
	}

	r.OnDead = &route.Route{Prefix: "ops"}
	if d := dies(notice.DeliveredResult(200), "x"); d != nil {
		t.Errorf("delivered: %s", d.Facts)
	}
	d := dies(gone, "x")
	id := (&notice.Notice{Key: "app1:a:b:1", Made: notice.MadeAt(at)}).ID()
	want := `{"key":"app1:a:b:1","id":"` + id + `","route":"orders","reason":"gone","host":"shop.example","due":"2026-11-25T12:00:01.000Z",` +
		`"created_at":"2026-11-25T12:00:00.000Z","attempts_made":1,"last_attempt":{"n":1,"at":"2026-11-25T12:00:02.000Z","status":410,` +
		`"duration_ms":1000,"reason":"gone","response":"no such shop"}}`
	if d == nil || d.Hook != "ops" || string(d.Facts) != want {
		t.Fatalf("%s\nwant %s", d.Facts, want)
	}

	// The longest answer, of characters that need escapes.
	gone = notice.DeadResult(notice.ReasonGone, strings.Repeat("\x01", 2000))
	if d := dies(gone, strings.Repeat("x", 10_000)); len(d.Facts) > 4<<10 {
		t.Errorf("%d bytes of facts, want at most 4 KiB", len(d.Facts))
	}
}

func TestHookOmitsBodyThatIsTooLong(t *testing.T) {
	r := testRoute("orders", 1)
	r.OnDead, r.OnDeadBody = &route.Route{Prefix: "ops"}, 1<<10
	for size := range 1 << 10 {
		n := &notice.Notice{Key: "app1:a:b:1", Made: 1, Content: notice.Content{Body: []byte(strings.Repeat("x", size))}}
		if size%2 == 1 {
			n.Body, n.Sealed = nil, strings.Repeat("x", size)
		}
		d := End(r, &store.Claim{Notice: n}, notice.DeadResult(notice.ReasonGone, ""), notice.Attempt{}, notice.Waits{}).Death
		var f facts
		d.At = time.Now()
		body := d.Body()
		if err := json.Unmarshal(body, &f); err != nil || len(body) > 1<<10 {
			t.Fatalf("a body of %d bytes: %d bytes, %v", size, len(body), err)
		}
		whole, most := string(f.BodyBase64) == string(n.Body) && f.Sealed == n.Sealed, 700
		if n.Sealed != "" {
			most = 950 // without base64
		}
		if size > 0 && f.BodyOmitted == whole || f.BodyOmitted && size < 400 || !f.BodyOmitted && size > most {
			t.Fatalf("a body of %d bytes: omitted %v, %d bytes given", size, f.BodyOmitted, len(f.BodyBase64))
		}
	}
}
