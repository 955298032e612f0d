package app

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// won is how many claims an instance has won, by its metrics page.
func (i *instance) won(t *testing.T) (n int) {
	t.Helper()
	resp, err := http.Get("http://" + i.MetricsAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, `notifier_claims_total{result="won"`) {
			f, _ := strconv.ParseFloat(value, 64)
			n += int(f)
		}
	}
	return n
}

// TestFreedSlotsOfAFleetAreUsed: three instances share the slots of a host at which 240
// notices are due at once. Each notice is delivered once, no more calls are under way than the
// slots allow, and a notice that has to wait costs one further claim, 1.2 at most.
func TestFreedSlotsOfAFleetAreUsed(t *testing.T) {
	const n, slots = 240, 12
	srv, to := testkit.StartRedis(t), newShop(t, 50*time.Millisecond)
	var all []*instance
	for range 3 {
		all = append(all, serveOn(t, srv, "ROUTES=pay", "ROUTE_PAY_PREFIX=app1:pay", "ROUTE_PAY_TARGET=notice", "ROUTE_PAY_ALLOW=127.0.0.1",
			"METRICS_LISTEN=127.0.0.1:0", fmt.Sprint("ROUTE_PAY_HOST_CONCURRENCY=", slots)))
	}
	together(t, all...)
	from := time.Now().Add(500 * time.Millisecond)
	var reqs []store.Request
	for k := range n {
		reqs = append(reqs, store.Request{Key: fmt.Sprint("app1:pay:n:", k), Due: from, Content: notice.Content{URL: to.URL, Body: []byte("{}")}})
	}
	for _, r := range all[0].ScheduleMany(t.Context(), reqs) {
		if r.Err != nil || !r.Created {
			t.Fatalf("schedule: %+v", r)
		}
	}
	to.await(t, n)
	took := time.Since(from)
	won := 0
	for _, i := range all {
		won += i.won(t)
	}
	if extra := float64(won-n) / n; extra > 1.2 {
		t.Errorf("%d claims for %d notices: %.2f further ones each", won, n, extra)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	for key, at := range to.at {
		if len(at) != 1 {
			t.Errorf("%s came %d times", key, len(at))
		}
	}
	if to.most > slots || len(to.at) != n {
		t.Errorf("%d of %d notices came, %d at once; %d are allowed", len(to.at), n, to.most, slots)
	}
	t.Logf("%d claims; %s, at least %s", won, took, n/slots*50*time.Millisecond)
}
