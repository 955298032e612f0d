package engine_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// A host with few slots is called without pauses by a real handler: each notice once, and its
// lateness is observed once, as busy. The times are those of virtual time in package dispatch;
// here they are only logged.
func TestBusyHostIsCalledWithoutPauses(t *testing.T) {
	t.Parallel()
	const slots, notices, took = 16, 160, 200 * time.Millisecond
	srv := testkit.SharedRedis(t)
	var mu sync.Mutex
	came, last, all := map[string]int{}, time.Time{}, make(chan struct{})
	merchant := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		time.Sleep(took) // sleep: the call takes as long
		mu.Lock()
		defer mu.Unlock()
		came[r.Header.Get("Notifier-Key")]++
		if last = time.Now(); len(came) == notices {
			select {
			case <-all:
			default:
				close(all)
			}
		}
	}))
	defer merchant.Close()
	r := shopRoute(t)
	r.HostConcurrency = slots
	e, m, stop := runShops(t, srv, r)
	due := time.Now().Add(time.Second).Truncate(time.Millisecond)
	var reqs []store.Request
	for i := range notices {
		reqs = append(reqs, store.Request{Key: fmt.Sprintf("app1:pay:busy:%d", i), Due: due, Content: notice.Content{URL: merchant.URL}})
	}
	for _, x := range e.ScheduleMany(t.Context(), reqs) {
		if x.Err != nil || !x.Created {
			t.Fatalf("schedule: %+v", x)
		}
	}
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		t.Errorf("%d of %d notices came", len(came), notices)
	}
	stop()
	for key, n := range came {
		if n != 1 {
			t.Errorf("%s came %d times", key, n)
		}
	}
	s := m.Totals("shops")
	t.Logf("%s of at least %s; %v; lateness p50 %s, p99 %s", last.Sub(due), notices/slots*took, s.Outcomes, s.LatenessP50, s.LatenessP99)
	if s.LatenessP99 < took {
		t.Errorf("lateness p99 %s: postponed notices are not observed from their promise", s.LatenessP99)
	}
}
