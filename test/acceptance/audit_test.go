//go:build !quick

package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/client"
)

// 3,000 sign-outs of a link's sessions, by someone who may only look, and 3,000 changes
// by a producer leave the operator's entries readable, and no keys behind.
func TestAuditKeepsEntriesOfOthersDuringFlood(t *testing.T) {
	const n, parallel = 3000, 8
	const ops, shop, desk = "token-of-the-operators-0123456789", "token-of-the-shop-012345678901234", "token-of-the-desk-012345678901234"
	db := newRedis(t)
	s := launch(t, db.URL(), route("pay", "app1:pay", "notice", "ALLOW=127.0.0.0/8"), []string{"NOTIFIER_CLIENTS=ops,shop,desk",
		"NOTIFIER_CLIENT_OPS_TOKEN=" + ops, "NOTIFIER_CLIENT_OPS_ROLE=admin",
		"NOTIFIER_CLIENT_SHOP_TOKEN=" + shop, "NOTIFIER_CLIENT_SHOP_ROLE=produce", "NOTIFIER_CLIENT_SHOP_PREFIX=app1",
		"NOTIFIER_CLIENT_DESK_TOKEN=" + desk, "NOTIFIER_CLIENT_DESK_ROLE=operate", "NOTIFIER_CLIENT_DESK_PREFIX=app1"})
	ctx := t.Context()
	if _, err := s.as(ops).Pause(ctx, "pay"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.as(ops).Resume(ctx, "pay"); err != nil {
		t.Fatal(err)
	}
	link, err := s.as(desk).PortalLink(ctx, client.PortalLinkRequest{Prefix: "app1:pay"})
	if err != nil {
		t.Fatal(err)
	}
	producer := s.as(shop)
	lines := make([][]byte, n)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, `{"key":"app1:pay:n:%d","delay":"1h","url":"https://shop.example/"}`, i)
	}
	for some := range slices.Chunk(lines, 1000) {
		if _, err := producer.ScheduleLines(ctx, some); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]bool{}
	for _, k := range db.Client().Keys(ctx, "notifier:*").Val() {
		before[k] = true
	}

	each := func(attack func(worker, i int) error) {
		t.Helper()
		var wg sync.WaitGroup
		for worker := range parallel {
			wg.Go(func() {
				for i := worker; i < n; i += parallel {
					if err := attack(worker, i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	path, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	browsers := make([]*http.Client, parallel)
	for i := range browsers {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		browsers[i] = &http.Client{Jar: jar, Timeout: waitTimeout, CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}}
		t.Cleanup(browsers[i].CloseIdleConnections)
	}
	began := time.Now()
	each(func(worker, _ int) error {
		b := browsers[worker]
		page := func(res *http.Response, err error) (string, error) {
			if err != nil {
				return "", err
			}
			defer func() { _ = res.Body.Close() }()
			raw, err := io.ReadAll(res.Body)
			if err == nil && res.StatusCode >= 400 {
				err = fmt.Errorf("%s: %s", res.Status, raw)
			}
			return string(raw), err
		}
		for _, path := range []string{path.Path, "/ui/opened"} {
			if _, err := page(b.Get(s.url + path)); err != nil {
				return err
			}
		}
		text, err := page(b.Get(s.url + "/ui/notices"))
		if err != nil {
			return err
		}
		m := csrfOf.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("no button to sign out: %.300s", text)
		}
		_, err = page(b.PostForm(s.url+"/ui/sign-out", url.Values{"csrf": {m[1]}}))
		return err
	})
	t.Logf("%d sign-outs in %s", n, time.Since(began))
	began = time.Now()
	each(func(_, i int) error {
		_, err := producer.Reschedule(ctx, fmt.Sprintf("app1:pay:n:%d", i), time.Now().Add(2*time.Hour))
		return err
	})
	t.Logf("%d changes in %s", n, time.Since(began))

	counts, entries := map[string]int{}, 0
	for q := (client.AuditQuery{Limit: 1000}); ; {
		p, err := s.as(ops).Audit(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Items {
			counts[e.Client+" "+e.Action] += e.Count
			entries++
		}
		if q.Cursor = p.Cursor; q.Cursor == "" {
			break
		}
	}
	for what, want := range map[string]int{"ops pause": 1, "ops resume": 1, "desk portal-link": 1, "shop reschedule": 2000} {
		if counts[what] != want {
			t.Errorf("%d times %s, want %d", counts[what], what, want)
		}
	}
	if len(counts) != 4 || entries > 2004 {
		t.Errorf("%d entries: %v", entries, counts)
	}
	var fresh []string
	for _, k := range db.Client().Keys(ctx, "notifier:*").Val() {
		if !before[k] && !strings.Contains(k, ":{fleet}:") {
			fresh = append(fresh, k)
		}
	}
	if len(fresh) > 4 {
		t.Errorf("%d keys more than before, among them %q", len(fresh), fresh[:5])
	}
}
