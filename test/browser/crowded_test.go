//go:build !quick

package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/wire"
)

var look = flag.Duration("look", 0, "how long the crowded service of TestCrowded stays open, to look at its pages")

// The crowd: 30 routes, 2,000 receivers of which 1,600 fail, 5,000 dead letters.
const (
	crowdReceivers = 2000
	crowdDead      = 5000
)

// crowdRoutes are the routes besides those of start.
var crowdRoutes = strings.Fields("coupon member order invoice shipment settlement payout transfer billing wallet points loyalty survey " +
	"refill returns stock price catalog supplier warehouse courier pickup customs audit report fraud limits")

// crowded is a service with the crowd.
func crowded(t *testing.T) *service {
	t.Helper()
	settings := []string{"NOTIFIER_ROUTES", "payments,refunds,mail," + strings.Join(crowdRoutes, ",")}
	for i, name := range crowdRoutes {
		at := "NOTIFIER_ROUTE_" + strings.ToUpper(name)
		settings = append(settings, at+"_PREFIX", "shop:"+name, at+"_TARGET", "notice", at+"_RATE", fmt.Sprintf("%d/s", 10*(i%4)+10))
	}
	s := start(t, settings...)
	s.crowdLetters()
	s.crowdHealth()
	s.holdReceivers()
	return s
}

func crowdHost(i int) string { return fmt.Sprintf("callback.merchant-%04d.example", i) }

// crowdLetters puts back dead letters and pending notices as a file of notifier export has them.
func (s *service) crowdLetters() {
	s.t.Helper()
	now, rows := time.Now().UTC().Truncate(time.Millisecond), []map[string]any{}
	made := notice.MadeAt(now.Add(-24 * time.Hour))
	row := func(key string, host int, state string, due time.Time) map[string]any {
		m := map[string]any{"key": key, "url": "https://" + crowdHost(host) + "/notify", "state": state, "due": due,
			"body": map[string]any{"order": key}, "created_at": made.Time(), "id": (&notice.Notice{Key: key, Made: made}).ID()}
		rows = append(rows, m)
		return m
	}
	for i := range crowdDead {
		route, status, reason, text := "coupon", 500, "status_5xx", `{"code":"DB_DOWN","message":"too many connections"}`
		switch {
		case i%8 == 0:
			route, status, reason, text = "member", 200, "ack_mismatch", `{"result":"ok"}`
		case i%50 == 1:
			route, status, reason, text = "settlement", 0, "timeout", "no answer within 15s"
		}
		died := now.Add(-time.Duration(i) * 700 * time.Millisecond)
		m := row(fmt.Sprintf("shop:%s:notice:%08d", route, i), i%crowdReceivers, "dead", died.Add(-time.Minute))
		m["settled_at"], m["reason"], m["attempts_made"] = died, reason, 1
		m["attempts"] = []map[string]any{{"n": 1, "at": died, "status": status, "duration_ms": 120, "reason": reason, "response": text}}
	}
	for i := range 20 * len(crowdRoutes) {
		name := crowdRoutes[i%len(crowdRoutes)]
		row(fmt.Sprintf("shop:%s:notice:p%05d", name, i), i, "scheduled", now.Add(time.Hour+time.Duration(i*i)*time.Second/20))
	}
	for len(rows) > 0 {
		part := rows[:min(len(rows), 500)]
		rows = rows[len(part):]
		var text bytes.Buffer
		for _, m := range part {
			if err := json.NewEncoder(&text).Encode(m); err != nil {
				s.t.Fatal(err)
			}
		}
		s.restore(text.String(), len(part))
	}
}

// restore puts back notices, one a line.
func (s *service) restore(lines string, n int) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.address+"/v1/notices/restore", strings.NewReader(lines))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil || bytes.Count(answer, []byte(`"status":201`)) != n {
		s.t.Fatalf("%v %.600s", err, answer)
	}
}

// crowdHealth stores the health of the receivers: four in five fail.
func (s *service) crowdHealth() {
	s.t.Helper()
	store, now := &receivers.HealthStore{Wire: wire.New(wire.Options{Client: s.redis.Client(),
		Space: keys.Space{Namespace: "notifier"}})}, time.Now()
	tracker, waits := receivers.NewTracker(), crowdWaits{}
	for i := range crowdReceivers {
		prefix := "shop:coupon"
		if i%8 == 0 {
			prefix = "shop:member"
		}
		name, since := crowdHost(i)+":443", now.Add(-time.Duration(i%97)*23*time.Minute)
		observe := func(at time.Time, failed bool, status int, reason string) {
			tracker.Observe(prefix, name, receivers.Attempt{At: at, Failed: failed, Status: status, Reason: reason, Took: 80 * time.Millisecond})
		}
		observe(since.Add(-time.Minute), false, 200, "")
		for n := range 6 {
			switch {
			case i%8 == 0:
				observe(since.Add(time.Duration(n)*time.Second), true, 200, "ack_mismatch")
			case i%9 == 0:
				observe(since.Add(time.Duration(n)*time.Second), true, 0, "timeout")
			default:
				observe(since.Add(time.Duration(n)*time.Second), true, 500, "status_5xx")
			}
		}
		if i%5 == 4 {
			observe(now, false, 200, "")
			continue
		}
		for range i % 7 {
			waits[prefix] = append(waits[prefix], receivers.Waiter{Receiver: name, Next: now.Add(5 * time.Minute), Failed: true})
		}
	}
	if err := store.WriteAll(s.t.Context(), tracker); err != nil {
		s.t.Fatal(err)
	}
	list, err := store.Read(s.t.Context(), []string{"shop:coupon", "shop:member"})
	if err == nil {
		err = (&receivers.Scanner{Store: store, Notices: waits}).Scan(s.t.Context(), list)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// crowdWaits are the notices that wait, by prefix.
type crowdWaits map[string][]receivers.Waiter

func (w crowdWaits) Pending(_ context.Context, prefix, _ string) (list []receivers.Waiter, read int, next string, err error) {
	return w[prefix], 0, "", nil
}

// crowdSearch is a search with many matches.
const crowdSearch = "/ui/notices?q=failed+1d+route%3Dcoupon"

// The pages of a crowded service. Now fits on two screens of 1280 x 800, with all its problems. With -look 30m
// the service stays open, and its address is logged; with -screenshots the pictures are kept.
func TestCrowded(t *testing.T) {
	s := crowded(t)
	if *look > 0 {
		t.Logf("the pages are at %s/ui/ for %s", s.address, *look)
		time.Sleep(*look) // sleep: a person looks at the pages
		return
	}
	dir := *screenshots
	if dir == "" {
		dir = t.TempDir()
	}
	b := browse(t, s)
	for _, shot := range []struct {
		name, path, sees string
		width            int64
		dark             bool
	}{
		{"crowded-now", "/ui/", "routes without problems", 1280, false}, {"crowded-now-narrow", "/ui/", "routes without problems", 390, false},
		{"crowded-receivers", "/ui/receivers", "2,000 receivers", 1280, false},
		{"crowded-receivers-narrow", "/ui/receivers", "2,000 receivers", 390, false},
		{"crowded-routes", "/ui/routes", "fraud", 1280, false}, {"crowded-routes-narrow", "/ui/routes", "fraud", 390, false},
		{"crowded-receiver", "/ui/receivers/" + crowdHost(2) + ":443", "Text of the last responses", 1280, false},
		{"crowded-dead", "/ui/dead", "status_5xx", 1280, false},
		{"crowded-dead-narrow", "/ui/dead", "status_5xx", 390, false},
		{"crowded-search", crowdSearch, "Next page", 1280, false}, {"crowded-search-narrow", crowdSearch, "Next page", 390, false},
		{"crowded-now-dark", "/ui/", "routes without problems", 1280, true},
		{"crowded-receivers-dark", "/ui/receivers", "2,000 receivers", 1280, true},
		{"crowded-dead-dark", "/ui/dead", "status_5xx", 1280, true}, {"crowded-search-dark", crowdSearch, "Next page", 1280, true},
		{"crowded-now-narrow-dark", "/ui/", "routes without problems", 390, true},
		{"crowded-search-narrow-dark", crowdSearch, "Next page", 390, true},
	} {
		scheme := "light"
		if shot.dark {
			scheme = "dark"
		}
		b.scheme(scheme)
		b.do(chromedp.EmulateViewport(shot.width, 800))
		b.open(shot.path)
		b.sees(shot.sees)
		wide := js[int](b, `document.documentElement.scrollWidth`)
		high := js[int](b, `document.documentElement.scrollHeight`)
		if cut := js[bool](b, `(() => { const q = document.querySelector("input[name=q]"), c = document.createElement("canvas").getContext("2d");
			c.font = getComputedStyle(q).font; const s = getComputedStyle(q);
			return c.measureText(q.placeholder).width > q.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight) })()`); cut {
			t.Errorf("%s: the search box cuts its example", shot.name)
		}
		if wide > int(shot.width) {
			t.Errorf("%s is %d pixels wide", shot.name, wide)
		}
		if shot.path == "/ui/" && shot.width == 1280 && high > 2*800 {
			t.Errorf("%s is %d pixels high, want at most two screens", shot.name, high)
		}
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes, %d pixels high", shot.name, len(png), high)
		if err := os.WriteFile(filepath.Join(dir, shot.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
